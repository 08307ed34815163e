#!/usr/bin/python3
"""A job that is disturbed again and again, and resumed with `latest` each time, ends as the undisturbed one: the same metrics,
weights and optimizer state, bit for bit.

  tests/faults/soak.py [--minutes M] [--seed S]      three minutes unless told otherwise; prints what it did

The disturbances, drawn at random: SIGKILL of a rank or of all, SIGSTOP of a rank, SIGTERM and SIGUSR1 (a checkpoint, then exit code
85), and a disk that is full for a while (a tmpfs of its own, where mounting is allowed)."""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

RANKS = 2
STEPS = 300
DISK = "64m"


def mount_disk(folder):
    """A small disk of this process's own; False where that is not allowed."""
    os.makedirs(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], stderr=subprocess.DEVNULL)
    return mounted.returncode == 0


def arguments(folder, out, **options):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher", student_model=f"{folder}/student",
        output_dir=out, max_steps=STEPS, per_device_train_batch_size=2, gradient_accumulation_steps=2, save_steps=7,
        eval_dataset_name=f"{folder}/held_out.jsonl", eval_steps=14, load_best_model_at_end="true",
        save_total_limit=2, heartbeat_timeout_seconds=2, report_to="jsonl", **options)]


def start(folder, out):
    return subprocess.Popen(job.command("distillrun", RANKS, f"{job.BIN}/distill_llm",
                                        *arguments(folder, out, resume_from_checkpoint="latest")),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            env=job.environment())


def ranks_of(process):
    """Their process ids: descendants of the launcher that run the program."""
    found, parents = [], [process.pid]
    while parents:
        children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", ",".join(map(str, parents))], stdout=subprocess.PIPE,
                                  text=True).stdout.split("\n")
        pairs = [line.split(None, 1) for line in children if line.strip()]
        parents = [int(pid) for pid, _ in pairs]
        found += [int(pid) for pid, name in pairs if name.startswith("distill_llm")]
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_rank(rng, process, _):
    ranks = ranks_of(process)
    if ranks:  # else the job has just ended
        send(rng.choice(ranks), signal.SIGKILL)


def kill_all(_, process, __):
    os.killpg(process.pid, signal.SIGKILL)


def stop_rank(rng, process, _):
    ranks = ranks_of(process)
    if not ranks:
        return
    pid = rng.choice(ranks)
    send(pid, signal.SIGSTOP)
    time.sleep(4)  # longer than the others wait for it
    send(pid, signal.SIGCONT)


def notify(rng, process, _):
    send(process.pid, rng.choice([signal.SIGTERM, signal.SIGUSR1]))


def fill_disk(rng, _, disk):
    with open(f"{disk}/filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * (1 << 16))
        except OSError:
            pass
    time.sleep(rng.uniform(0.2, 2))
    os.remove(f"{disk}/filler")


def check_equal(whole, out):
    evaluations = [job.evaluations(folder) for folder in (whole, out)]
    job.check(evaluations[0] == evaluations[1], f"evaluations {evaluations[1]} instead of {evaluations[0]}")
    job.check(len(job.records(whole)) == len(job.records(out)), "a step has two records")
    expected, found = job.metrics(whole), job.metrics(out)
    job.check(sorted(expected) == sorted(found), f"steps {sorted(set(expected) ^ set(found))} are in one of the runs only")
    for step, line in expected.items():
        for key in ("loss", "kl", "ce", "grad_norm", "learning_rate", "epoch"):
            job.check(json.dumps(line[key]) == json.dumps(found[step][key]), f"step {step}: {key} differs")
    for name in ("model.safetensors", f"checkpoint-{STEPS}/optimizer.safetensors"):
        with open(f"{whole}/{name}", "rb") as one, open(f"{out}/{name}", "rb") as other:
            job.check(one.read() == other.read(), f"{name} differs")


def in_turns(rng, actions):
    """Endlessly, each of them once before one comes again."""
    while True:
        yield from rng.sample(actions, len(actions))


def disturb(folder, disk, rng, actions, deadline):
    """One run from its first step to its end; (what was done to it, how often it was resumed within its steps)."""
    out, done, resumed = f"{disk}/run", [], 0
    shutil.rmtree(out, ignore_errors=True)
    while True:
        process = start(folder, out)
        action = next(actions) if time.monotonic() < deadline else None
        try:
            output = process.communicate(timeout=rng.uniform(0.5, 3) if action else 300)[0]
        except subprocess.TimeoutExpired:
            job.check(action is not None, "an undisturbed job did not end within 300 s")
            action(rng, process, disk)
            done.append(action.__name__)
            output = process.communicate(timeout=120)[0]
        else:
            action = None
        resumed += "resuming from " in output
        if process.returncode == 0 and not os.path.exists(f"{out}/checkpoint-{STEPS}"):
            # The disk was full then, and is not now: the same command saves it.
            job.check(action is fill_disk and "(save_failure: warn)" in output,
                      f"the last checkpoint is missing, and nobody was told:\n{output}")
            continue
        if process.returncode == 0:
            return done, resumed
        job.check(action is not None, f"a job that nobody disturbed ended with {process.returncode}:\n{output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if os.geteuid() == 0 and "DISTILL_SOAK_UNSHARED" not in os.environ:
        os.environ["DISTILL_SOAK_UNSHARED"] = "1"
        if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.execvp("unshare", ["unshare", "-m", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    rng = random.Random(options.seed)
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=200)
    job.make_chat(f"{folder}/held_out.jsonl", rows=20)
    disk, actions = f"{folder}/disk", [kill_rank, kill_all, stop_rank, notify]
    if mount_disk(disk):
        actions.append(fill_disk)
    else:
        print("left out: the full disk, since nothing can be mounted here")
    turns = in_turns(rng, actions)
    whole = f"{folder}/whole"
    job.must_run(arguments(folder, whole), ranks=RANKS)
    began, runs, counts, resumed = time.monotonic(), 0, {}, 0
    deadline = began + 60 * options.minutes
    print(f"seed {options.seed}")
    while time.monotonic() < deadline:
        names, times = disturb(folder, disk, rng, turns, deadline)
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        resumed += times
        check_equal(whole, f"{disk}/run")
        runs += 1
    job.check(resumed > 0, "no run was disturbed within its steps: the machine is too slow for the time that was given")
    text = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    print(f"ok: {runs} runs of {STEPS} steps, {text}, {resumed} times resumed: all ended as the undisturbed one ({time.monotonic() - began:.0f} s)")
    if actions[-1] is fill_disk:
        subprocess.run(["umount", disk], check=False)


main()
