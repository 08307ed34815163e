"""A rank on a slow disk is waited for while it says what it does, longer than a collective may take; one that is silent, or
over the limit of what it says, ends the job, with its name."""
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

TIMEOUT = 3  # of collectives
SLOW = 7


def arguments(folder, out, **options):
    return ["--config_file", job.config(
        folder, **{"dataset_name": f"{folder}/chat.jsonl", "teacher_model": f"{folder}/teacher",
                   "student_model": f"{folder}/student", "output_dir": f"{folder}/{out}", "max_steps": 6,
                   "save_steps": 3, "comm_timeout_seconds": TIMEOUT, **options})]


def slow_disk(folder, name, call, rank, seconds, part):
    """The environment under which the rank's first such call takes so long, and the file that says when it began."""
    mark = f"{folder}/{name}-mark"
    return {"LD_PRELOAD": f"{job.BIN}/slow_disk.so", "SLOW_DISK": f"{call}:{rank}:{seconds}:{part}",
            "SLOW_DISK_MARK": mark}, mark


def check_waits(folder, name, call, rank, part, out, **options):
    changes, mark = slow_disk(folder, name, call, rank, SLOW, part)
    start = time.monotonic()
    code, output = job.run(arguments(folder, out, **options), ranks=2, **changes)
    job.check(os.path.exists(mark), f"{name}: the disk was not slow:\n{output}")
    job.check(code == 0, f"{name}: exit code {code}:\n{output}")
    print(f"ok: {name}, {time.monotonic() - start:.1f} s")


def check_ends(folder, name, slow, expected, limit, meanwhile=None, **options):
    """The job ends with exit code 1 and the text, this long after the disk became slow at the latest."""
    changes, mark = slow_disk(folder, name, *slow)
    process = subprocess.Popen(
        job.command("distillrun", 2, f"{job.BIN}/distill_llm", *arguments(folder, name.replace(" ", "-"), **options)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=job.environment(**changes))
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout))
    reader.start()
    while not (os.path.exists(mark) and open(mark, encoding="utf-8").read()) and process.poll() is None:
        time.sleep(0.05)
    start = time.monotonic()
    if meanwhile is not None:
        with open(mark, encoding="utf-8") as file:
            meanwhile(int(file.read()))
    code = process.wait(timeout=120)
    took = time.monotonic() - start
    reader.join()
    output = "".join(lines)
    job.check(code == 1, f"{name}: exit code {code}:\n{output}")
    job.check(re.search(expected, output), f"{name}: no '{expected}' in:\n{output}")
    job.check(took < limit, f"{name}: it took {took:.1f} s:\n{output}")
    print(f"ok: {name}, {took:.1f} s")


def check_loads(folder):
    check_waits(folder, "loading data", "open", 1, "chat.jsonl", "a")
    check_waits(folder, "loading a model", "open", 0, "teacher/model.safetensors", "b")


def check_saves(folder):
    check_waits(folder, "saving a checkpoint", "fsync", 0, "checkpoint-3", "c")
    check_waits(folder, "checking a checkpoint on resume", "open", 0, "checkpoint-6/", "c",
                resume_from_checkpoint="latest", max_steps=8)
    check_waits(folder, "publishing the student", "fsync", 0, "model.safetensors", "d", save_steps=0)


def check_silence(folder):
    check_ends(folder, "silent", ("open", 1, 300, "chat.jsonl"),
               r"rank 1 on \S+ was lost: nothing heard from it for 5s", 60,
               meanwhile=lambda pid: os.kill(pid, signal.SIGSTOP), heartbeat_timeout_seconds=5)


def check_limit(folder):
    check_ends(folder, "over its limit", ("fsync", 0, 300, "checkpoint-3"),
               r"; rank 0 on \S+ has been saving for \d+s, longer than the 4s that this may take", 70,
               phase_timeout_seconds=4)


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=24)
    with ThreadPoolExecutor(4) as pool:  # they mostly wait
        checks = [pool.submit(check, folder) for check in (check_loads, check_saves, check_silence, check_limit)]
        for check in checks:
            check.result()


main()
