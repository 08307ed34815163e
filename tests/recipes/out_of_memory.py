"""A training, of any model, for which memory runs out says how much of it is what, and what to lower. The limit is a real one."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

SKIPPED = 77
LIMIT_KIB = 2000000  # of addresses, for each process


def run_out(folder, ranks, hidden, rows, *parts):
    program = [f"{job.BIN}/own_recipe", "--points", f"{folder}/points.txt", "--output_dir", f"{folder}/out", "--hidden", str(hidden),
               "--per_device_train_batch_size", str(rows), "--device", "cpu", "--max_steps", "1"]
    command = " ".join(job.command("distillrun", ranks, *program))
    done = subprocess.run(["/bin/bash", "-c", f"ulimit -v {LIMIT_KIB}; exec {command}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100, env=job.environment())
    job.check(done.returncode == 1, f"exit code {done.returncode}\n{done.stdout}")
    for part in ("out of host memory: start fewer ranks on this host", *parts):
        job.check(re.search(part, done.stdout), f"nothing like '{part}' in\n{done.stdout}")
    for bad in ("bad_alloc", "terminate called"):
        job.check(bad not in done.stdout, done.stdout)
    said = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    job.check(len(said) == 1, f"{len(said)} errors in\n{done.stdout}")
    return done.stdout


def main():
    probe = subprocess.run(["/bin/bash", "-c", f"ulimit -v {LIMIT_KIB // 2}; {job.BIN}/own_recipe --help"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=job.environment())
    if probe.returncode != 0:
        print(f"skipped: the libraries of this build need more than {LIMIT_KIB // 2} KiB of addresses")
        sys.exit(SKIPPED)
    folder = job.workspace()
    with open(f"{folder}/points.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{i / 512} {i / 512}\n" for i in range(1024))
    # 3 weights of float32 a unit; a unit's state for each row.
    output = run_out(folder, 2, 2000000, 64, r"memory of rank \d, by kind, in micro-batch 1 of 1",
                     r"\n +0\.022 GiB  weights  +float32\n", r"\n +0\.045 GiB  optimizer's moments  +2 x float32\n",
                     r"\n +0\.022 GiB  gradients  +float32\n", r"GiB  all else in use", r"\n +0\.[3-9]\d\d GiB  activations", "to lower it: per_device_train_batch_size",
                     "bf16: true", "zero_stage: 2, which divides the optimizer's state and gradients by 2")
    print(output)
    output = run_out(folder, 1, 50000000, 1, r"memory of rank 0, by kind:\n", r"0\.559 GiB  weights", r"1\.118 GiB  optimizer's moments")
    job.check("zero_stage" not in output, f"one rank is told to share\n{output}")
    print("ok: where memory runs out, in a pass or before the first step, sizes by kind are printed")


main()
