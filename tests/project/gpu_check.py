"""scripts/gpu-check packs what a machine with only LibTorch and a driver needs, in 60 MiB, and the pack runs from there: here without a
GPU, in an environment without the build's paths. What does not suit it is refused by name, and a failed part stops no other."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ["DISTILL_BUILD_DIR"]
PYTHON = os.environ["DISTILL_ORACLES_PYTHON"]  # has torch
LIMIT_BYTES = 60 << 20
C_LIBRARY = re.compile(r"/(ld-linux-x86-64\.so\.2|lib(c|m|dl|rt|pthread|util|resolv)\.so\.\d)$")
PARTS = ["programs", "head and loss", "head and loss, whole-logits", "head and loss, trl", "head and loss, liger",
         "step, small models on the CPU", "quickstart, two ways of the CPU to add"]


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def start(command, folder, path="", **environment):
    """In an environment of its own, with the folders `path` before the system's."""
    clean = {"HOME": folder, "PATH": f"{path}:/usr/bin:/bin", "TMPDIR": folder, "OMP_WAIT_POLICY": "PASSIVE", **environment}
    return subprocess.run(command, cwd=folder, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def make_pack(folder):
    pack = f"{folder}/pack"
    packed = subprocess.run([f"{SOURCE}/scripts/gpu-check", "--pack", pack, "--build", BUILD], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    check(packed.returncode == 0, packed.stdout)
    size = sum(os.path.getsize(path) for path in glob.glob(f"{pack}/*"))
    print(f"the pack takes {size / 2**20:.1f} MiB")
    check(size <= LIMIT_BYTES, f"{size} bytes")
    again = subprocess.run([f"{SOURCE}/scripts/gpu-check", "--pack", folder, "--build", BUILD], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    check(again.returncode != 0 and "holds other files" in again.stdout, again.stdout)
    return pack


def check_whole_run(pack, folder):
    done = start([f"{pack}/run", "--without-gpu", "--out", "out"], folder, os.path.dirname(PYTHON))
    check(done.returncode == 0, done.stdout)
    with open(f"{folder}/out/gpu-check.json", encoding="utf-8") as file:
        report = json.load(file)
    with open(f"{pack}/tests", encoding="utf-8") as file:
        tests = [f"test {line.split(chr(9))[0]}" for line in file]
    states = {part["part"]: part["state"] for part in report["parts"]}
    print("\n".join(f"{part['part']}: {part['state']} {part['reason']}" for part in report["parts"]))
    check(sorted(states) == sorted(PARTS + tests), f"parts {sorted(states)}")
    check({"test comm_nccl", "test optim_gpu", "test golden_nn", "test golden_loss"} <= set(tests), f"tests {tests}")
    for name in ("programs", "head and loss", "head and loss, whole-logits", *PARTS[-2:], "test golden_nn", "test golden_loss"):
        check(states[name] == "ok", f"{name}: {states[name]}")
    for part in report["parts"]:
        check(part["state"] != "skipped" or part["reason"], f"{part} is skipped without a reason")
    counted = [report["ok"], report["failed"], report["skipped"]]
    check(counted == [list(states.values()).count(state) for state in ("ok", "failed", "skipped")], f"{counted}")
    with open(f"{folder}/out/gpu-check.md", encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("| ")]
    check(len(rows) == len(states) + 2 and all(row.count("|") == 5 for row in rows), "".join(rows))


def check_libraries(pack, folder):
    """Every library is one of the pack's, LibTorch's or the C library's, and no path of this machine is left."""
    torch = subprocess.run([PYTHON, "-c", "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    site = os.path.dirname(torch)
    own = f"{pack}/unpacked/programs"
    paths = [f"{torch}/lib", *glob.glob(f"{site}/nvidia/*/lib"), f"{own}/lib"]
    programs = glob.glob(f"{own}/bin/*")
    check(len(programs) > 10, f"{programs}")
    libraries = glob.glob(f"{own}/lib/*")
    for file in programs + libraries + glob.glob(f"{own}/fabric/*"):
        if file not in programs + libraries:
            paths = [*paths, f"{own}/fabric"]
        said = subprocess.run(["readelf", "-d", file], stdout=subprocess.PIPE, text=True, check=True).stdout
        check("RUNPATH" not in said and "RPATH" not in said, f"{file} has a path of this machine")
        loaded = start(["ldd", file], folder, LD_LIBRARY_PATH=":".join(paths)).stdout
        check("not found" not in loaded, f"{file}: {loaded}")
        for library in re.findall(r"=> (/\S+)", loaded):
            check(os.path.normpath(library).startswith((own, site)) or C_LIBRARY.search(library), f"{file} loads {library}")
    print(f"{len(programs)} programs find their libraries in the pack and in LibTorch")


def fake_smi(folder, gpus, driver, capability, mib=24564):
    os.makedirs(f"{folder}/smi", exist_ok=True)
    with open(f"{folder}/smi/nvidia-smi", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + f"echo 'NVIDIA Pretended, {mib}, {driver}, {capability}'\n" * gpus)
    os.chmod(f"{folder}/smi/nvidia-smi", 0o755)
    return f"{folder}/smi:{os.path.dirname(PYTHON)}"


def check_machines(pack, folder):
    """What it finds of GPUs and drivers, with no time for the parts, which then say so."""
    for gpus, driver, capability, expected in (
            (2, "570.10", "9.0", "the driver is 570.10"), (1, "580.95", "6.1", "Pretended has 6.1"), (8, "580.95", "8.6", "")):
        done = start([f"{pack}/run", "--seconds", "1", "--out", "machines"], folder, fake_smi(folder, gpus, driver, capability))
        with open(f"{folder}/machines/gpu-check.json", encoding="utf-8") as file:
            report = json.load(file)
        check(done.returncode == 0 and expected in report["machine"]["no_gpu"], f"{done.stdout} {report['machine']}")
        check(report["machine"]["gpus"] == (0 if expected else gpus), f"{report['machine']}")
        reasons = {part["part"]: part["reason"] for part in report["parts"] if part["state"] == "skipped"}
        check(len(reasons) == len(report["parts"]), f"{report['parts']}")
        check("no time was left" in reasons["programs"], reasons["programs"])
        if not expected:
            check("wants a GPU of 64 GiB" in reasons["step, 1.5 billion parameters from 7 billion"], f"{reasons}")
            check("quickstart, 8 GPUs as the CPU" in reasons, f"{reasons}")


SMI_OF_THREE = """#!/bin/sh
[ "$1" = -i ] && wanted=$2 || wanted=0,1,2
for gpu in $(echo $wanted | tr , ' '); do
  case $gpu in
    0) echo 'NVIDIA Large, 81559, 580.95, 9.0' ;;
    1) echo 'NVIDIA Middle, 24564, 580.95, 8.6' ;;
    2) echo 'NVIDIA Small, 15360, 580.95, 7.5' ;;
    *) echo "Invalid device ID $gpu"; exit 6 ;;
  esac
done
"""


def check_visible_devices(folder):
    """Of three GPUs what CUDA_VISIBLE_DEVICES leaves is counted and described, in its order."""
    with open(f"{folder}/nvidia-smi", "w", encoding="utf-8") as file:
        file.write(SMI_OF_THREE)
    os.chmod(f"{folder}/nvidia-smi", 0o755)
    script = f"""
set -uo pipefail
without_gpu=0 pack_driver=580 pack_architectures=75,86,90 pack_torch=2
source {SOURCE}/scripts/gpu_check/machine.sh
find_gpus
echo "$gpus|$gpu_name|$capability|$gpu_gib|$no_gpu"
"""
    for visible, expected in ((None, "3|NVIDIA Large|9.0|15|"), ("1", "1|NVIDIA Middle|8.6|24|"), ("2,0", "2|NVIDIA Small|7.5|15|"),
                              ("MIG-1", "1|NVIDIA Large|9.0|15|"), ("", "0|||0|CUDA_VISIBLE_DEVICES= hides all GPUs"),
                              ("-1", "0|||0|CUDA_VISIBLE_DEVICES=-1 hides all GPUs"), ("7", "nvidia-smi says: Invalid device ID 7")):
        done = start(["bash", "-c", script], folder, folder, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
        check(done.returncode == 0 and expected in done.stdout, f"CUDA_VISIBLE_DEVICES {visible}: {done.stdout}")


def check_refusals(pack, folder):
    os.makedirs(f"{folder}/old/lib")
    open(f"{folder}/old/lib/libtorch_cpu.so", "w", encoding="utf-8").close()
    with open(f"{folder}/old/version.py", "w", encoding="utf-8") as file:
        file.write("__version__ = '2.9.1+cu130'\n")
    for environment, expected in (({"TORCH_LIB": f"{folder}/old/lib"}, "LibTorch 2.9.1+cu130 is in"),
                                  ({"TORCH_LIB": folder}, "has no libtorch_cpu.so"), ({}, "no LibTorch: install")):
        done = start([f"{pack}/run", "--out", "refused"], folder, **environment)
        check(done.returncode == 2 and expected in done.stdout, f"{expected}: {done.stdout}")
    for flags, expected in ((["--gpu"], "unknown option --gpu"), (["--seconds", "0"], "a number above 0"), (["--work"], "--work takes a value")):
        done = start([f"{pack}/run", *flags], folder)
        check(done.returncode == 2 and expected in done.stdout, f"{expected}: {done.stdout}")
    with open(f"{pack}/data.tar.xz", "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    done = start([f"{pack}/run", "--without-gpu"], folder)
    check(done.returncode == 2 and "data.tar.xz" in done.stdout and "is not what was packed" in done.stdout, done.stdout)


def check_results(folder):
    """Of parts: a failure, one that runs out of time, losses that differ, and a text that JSON must escape."""
    losses = ["".join(f'{{"step":{step},"loss":{2 / step + more * (step == 3)}}}\n' for step in range(1, 4)) +
              '{"step":3,"eval_loss":0.5}\n' for more in (0, 1e-5, 0.1)]
    for number, text in enumerate(losses):
        with open(f"{folder}/{number}.jsonl", "w", encoding="utf-8") as file:
            file.write(text)
    script = f"""
set -uo pipefail
say() {{ :; }}
out={folder} work={folder} seconds=100 began=$SECONDS torch_path=/none without_gpu=0 gpus=0 gpu_name="" gpu_gib=0 driver="" capability="" no_gpu=none
torch_version=1 pack_revision=abc pack_changed=0
for file in report parts; do source {SOURCE}/scripts/gpu_check/$file.sh; done
: >gpu-check.log
limited planted 9 bash -c 'echo "error: a \\"planted\\" one"; exit 3'; conclude planted $?
limited slow 1 sleep 30; conclude slow $?
for other in 1 2; do
  log={folder}/part.log; compare_losses 0.jsonl $other.jsonl 1e-3 3 >$log; conclude losses$other $? "$(head -1 $log)"
done
compare_losses 0.jsonl 1.jsonl 1e-3 4 >$log; conclude fewer $?
write_report
"""
    done = start(["bash", "-c", script], folder)
    check(done.returncode == 0, done.stdout)
    with open(f"{folder}/gpu-check.json", encoding="utf-8") as file:
        parts = {part["part"]: part for part in json.load(file)["parts"]}
    expected = {"planted": 'exit code 3: error: a "planted" one', "slow": "more than its time", "losses2": "losses differ by 0.15 at step 3",
                "fewer": "4 losses in common, and not 5"}
    for name, reason in expected.items():
        check(parts[name]["state"] == "failed" and reason in parts[name]["reason"], f"{parts[name]}")
    check(parts["losses1"]["state"] == "ok" and parts["losses1"]["figures"]["losses"] == 4, f"{parts['losses1']}")


STUB = """#!/bin/bash
echo "$(basename $0) $*" >>{folder}/commands
case $(basename $0) in
  bench_distill_loss) echo 'JSON {{"case": "cuda/bf16/8192", "ms": 20.5}}' ;;
  bench_train_step) echo 'JSON {{"case": "llm_7b/bf16/1", "tokens_per_second": 5000.00, "limit_tokens_per_second": 20000.00, "loss": 6.1}}' ;;
  python3) echo "$2: 30.25 ms" ;;
  distillrun)
    while [ $1 != --max_steps ]; do shift; done
    steps=$2
    while [ $1 != --output_dir ]; do shift; done
    mkdir -p $2
    for ((step = 1; step <= steps; ++step)); do echo '{{"step":'$step',"loss":1.5}}'; done >$2/metrics.jsonl
    echo '{{"step":'$steps',"eval_loss":1.25}}' >>$2/metrics.jsonl ;;
  test_slow) echo "error: CUDA error: out of memory"; exit 42 ;;
  test_*) echo "All tests passed (17 assertions in 3 test cases)" ;;
esac
"""


def check_gpu_parts(folder):
    """What is started where there are two GPUs: the programs' part is played, since there are none here."""
    os.makedirs(f"{folder}/programs/bin")
    for name in ("bench_distill_loss", "bench_train_step", "distillrun", "test_comm_nccl", "test_slow", "test_nn", "python3"):
        path = f"{folder}/{name}" if name == "python3" else f"{folder}/programs/bin/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(STUB.format(folder=folder))
        os.chmod(path, 0o755)
    with open(f"{folder}/tests", "w", encoding="utf-8") as file:
        file.write("comm_nccl\ttest_comm_nccl\t[one_gpu]\t300\nslow\ttest_slow\t-\t120\nnn\ttest_nn\t-\t120\n")
    script = f"""
set -uo pipefail
say() {{ :; }}
out={folder} work={folder} PACK={folder} seconds=400 began=$SECONDS torch_path=/none without_gpu=0 gpus=2 gpu_name="NVIDIA H100"
gpu_gib=80 driver=580 capability=9.0 no_gpu="" torch_version=1 pack_revision=abc pack_changed=0
for file in report parts; do source {SOURCE}/scripts/gpu_check/$file.sh; done
check_programs() {{ echo "all starts"; }}
run_parts; write_report
"""
    done = start(["bash", "-c", script], folder, folder)
    check(done.returncode == 0, done.stdout)
    with open(f"{folder}/gpu-check.json", encoding="utf-8") as file:
        parts = {part["part"]: part for part in json.load(file)["parts"]}
    with open(f"{folder}/commands", encoding="utf-8") as file:
        commands = file.read()
    failed = [name for name, part in parts.items() if part["state"] != "ok"]
    check(failed == ["test slow"] and "out of memory" in parts["test slow"]["reason"], f"{parts}")
    check(parts["test nn"]["figures"] == {"assertions": 17}, f"{parts['test nn']}")  # it came after the one that failed
    check(parts["head and loss, liger"]["figures"] == {"ms": 30.25}, f"{parts}")
    step = parts["step, 1.5 billion parameters from 7 billion"]["figures"]
    check(step["share_of_matrix_rate"] == 0.25 and step["loss"] == 6.1, f"{step}")
    check(parts["quickstart, 2 GPUs as the CPU"]["figures"] == {"losses": 201, "worst_difference": 0, "at_step": 0}, f"{parts}")
    for wanted in (r"test_comm_nccl \[one_gpu\]", r"bench_distill_loss --device cuda --bf16 --tokens 8192 .*--chunk_tokens 1024",
                   r"python3 \S*distill_loss.py trl --device cuda --bf16", r"bench_train_step llm_7b --device cuda --bf16",
                   r"distillrun -np 2 .* --device cpu", r"distillrun -np 2 .* --device cuda"):
        check(re.search(wanted, commands), f"{wanted} is not among\n{commands}")


def main():
    if os.uname().machine != "x86_64":
        print("skipped: the packed libraries are told apart by x86-64's names alone")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        check_results(folder)
    with tempfile.TemporaryDirectory() as folder:
        check_visible_devices(folder)
    with tempfile.TemporaryDirectory() as folder:
        check_gpu_parts(folder)
    with tempfile.TemporaryDirectory() as folder:
        pack = make_pack(folder)
        check_whole_run(pack, folder)
        check_libraries(pack, folder)
        check_machines(pack, folder)
        check_refusals(pack, folder)


if __name__ == "__main__":
    main()
