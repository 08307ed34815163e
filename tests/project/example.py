"""The README's program: the same text as examples/first/first.cc, run on two ranks, inside the tree and outside of it."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

BUILD = os.path.dirname(job.BIN)


def check_readme():
    with open(f"{job.SOURCE}/examples/first/first.cc", encoding="utf-8") as file:
        program = file.read()
    with open(f"{job.SOURCE}/README.md", encoding="utf-8") as file:
        job.check(program in file.read(), "README.md does not show examples/first/first.cc as it is")


def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, f"{' '.join(command)}:\n{done.stdout}"


def build_outside(folder):
    """Against a package that was moved after its installation, into a folder with a space in its name."""
    prefix = f"{folder}/moved here"
    configure = ["cmake", "-S", f"{job.SOURCE}/tests/project/outside", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                 f"-DFIRST_SOURCE={job.SOURCE}/examples/first/first.cc", "-B"]
    code, output = call("cmake", "--install", BUILD, "--prefix", f"{folder}/installed")
    job.check(code == 0, output)
    os.rename(f"{folder}/installed", prefix)
    code, output = call(*configure, f"{folder}/no torch", f"-DDISTILL_TORCH_DIR={folder}/gone")
    job.check(code != 0 and f"No LibTorch in '{folder}/gone'" in output, output)
    for step in ([*configure, f"{folder}/outside"], ["cmake", "--build", f"{folder}/outside"]):
        code, output = call(*step)
        job.check(code == 0, output)
    return f"{folder}/outside/first"


def run(folder, program, name):
    command = [f"{job.BIN}/distillrun", "-np", "2", program, f"{folder}/teacher", f"{folder}/student",
               f"{folder}/chat.jsonl", f"{folder}/{name}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    job.check(done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    job.check(os.path.exists(f"{folder}/{name}/model.safetensors"), f"{name}: no model was saved\n{done.stdout}")
    return [line["loss"] for _, line in sorted(job.metrics(f"{folder}/{name}").items())]


def main():
    check_readme()
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=64)
    inside = run(folder, f"{job.BIN}/first", "inside")
    outside = run(folder, build_outside(folder), "outside")
    job.check(inside == outside and len(inside) == 12, f"losses differ: {inside} and {outside}")
    job.check(inside[-1] < inside[0], f"the loss did not fall: {inside}")
    print(f"ok: losses {inside[0]:.4f} to {inside[-1]:.4f}, inside and outside the tree")


main()
