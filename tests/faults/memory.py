"""A job that needs more memory than it may have says so, with what to do, and ends with the code for that: no bare bad_alloc."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

SKIPPED = 77
LIMIT_KIB = 2000000  # of addresses, for each process


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=20000)
    options = job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
                         student_model=f"{folder}/student", output_dir=f"{folder}/out", max_steps=1,
                         per_device_train_batch_size=20000)
    command = " ".join(job.command("distillrun", 2, f"{job.BIN}/distill_llm", "--config_file", options))
    probe = subprocess.run(["/bin/bash", "-c", f"ulimit -v {LIMIT_KIB // 2}; {job.BIN}/distill_llm --help"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=job.environment())
    if probe.returncode != 0:
        print(f"skipped: the libraries of this build need more than {LIMIT_KIB // 2} KiB of addresses")
        sys.exit(SKIPPED)
    done = subprocess.run(["/bin/bash", "-c", f"ulimit -v {LIMIT_KIB}; exec {command}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, env=job.environment())
    job.check(done.returncode == 1, f"exit code {done.returncode}\n{done.stdout}")
    job.check("out of host memory: start fewer ranks on this host" in done.stdout, done.stdout)
    job.check("GiB  activations" in done.stdout and "to lower it:" in done.stdout, done.stdout)
    job.check("bad_alloc" not in done.stdout and "terminate called" not in done.stdout, done.stdout)
    job.check(not os.path.exists(f"{folder}/out/model.safetensors"), "a model was saved")
    print("ok: memory that runs out is an error that says what to do")


main()
