"""A second job in an output_dir that a live one writes is refused with whose it is, whatever its options; a killed one's is free."""
import atexit
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def arguments(folder, out, **options):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
        student_model=f"{folder}/student", output_dir=out, **options)]


def start(folder, out):
    """A job that runs until it is killed, once its first checkpoint stands."""
    process = subprocess.Popen(
        job.command("distillrun", 2, f"{job.BIN}/distill_llm", *arguments(folder, out, save_steps=5, num_train_epochs=1e6,
                                                                          save_total_limit=2)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=job.environment())
    atexit.register(process.terminate)
    deadline = time.monotonic() + 60
    while not os.path.isdir(f"{out}/checkpoint-5"):
        job.check(process.poll() is None, "the job ended before it was killed")
        job.check(time.monotonic() < deadline, "no checkpoint-5 within 60 s")
        time.sleep(0.01)
    return process


def main():
    folder = job.workspace()
    out = f"{folder}/out"
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=83)
    first = start(folder, out)
    for options in ({"overwrite_output_dir": True}, {"resume_from_checkpoint": "latest"}):
        code, output = job.run(arguments(folder, out, max_steps=2, **options), ranks=2)
        job.check(code == 2, f"{options}: exit code {code}\n{output}")
        job.check(f"output_dir {out} is in use by another run: process " in output and "since 20" in output, output)
        job.check("give this run another output_dir, or end that one first" in output, output)
        job.check(first.poll() is None, f"{options}: the first job ended")
        print(f"ok: {options} beside a live job is refused")
    with open(f"{out}/.lock", encoding="utf-8") as file:
        lease = dict(line.split(" ", 1) for line in file)
    os.kill(int(lease["pid"]), signal.SIGKILL)
    first.wait(timeout=60)
    job.must_run(arguments(folder, out, max_steps=2, overwrite_output_dir=True), ranks=2)
    job.check(os.path.getsize(f"{out}/.lock") == 0, "the job that has ended well still holds a lease")
    print("ok: a killed job's folder is free at once")


main()
