"""What happens around a job's launcher: a job inside a job, a launcher that is killed, an outer job's variables, ranks that fail
or end with a checkpoint, few descriptors."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

LIMIT_SECONDS = 15
MARK = "DISTILL_TEST_MARK"


def processes_of(mark):
    """The pids of all that carry the mark in their environment and are not zombies."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass  # it has ended
    return found


def await_none(mark, what):
    deadline = time.monotonic() + LIMIT_SECONDS
    while processes_of(mark):
        job.check(time.monotonic() < deadline, f"{what}: processes {processes_of(mark)} live {LIMIT_SECONDS} s later")
        time.sleep(0.05)


def distillrun(ranks, script, **environment):
    done = subprocess.run(job.command("distillrun", ranks, "/bin/sh", "-c", script), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, env=job.environment(**environment))
    return done.returncode, done.stdout


def check_job_inside_a_job():
    outer = [{"RANK": "3", "WORLD_SIZE": "16", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"},
             {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
             {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}]
    for variables in outer:
        code, output = distillrun(2, "echo is-up", **variables)
        named = " ".join(f"{name}={variables[name]}" for name in list(variables)[:2])
        job.check(code == 2 and named in output and "is-up" not in output and "env -u " in output,
                  f"{named}: exit code {code}\n{output}")
    code, output = distillrun(2, "echo is-up", RANK="0", WORLD_SIZE="1")
    job.check(code == 0 and output.count("is-up") == 2, f"an outer job of one rank: exit code {code}\n{output}")
    done = subprocess.run([f"{job.BIN}/first"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          env=job.environment(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500"))
    job.check(done.returncode != 0 and "train alone" in done.stdout, f"one rank of accelerate's:\n{done.stdout}")
    print("ok: a job inside a job is refused")


WRAPPERS = {"a child": "{program}; :", "a process in the background": "{program} & wait",
            "a session of its own": "setsid {program} & wait", "an orphan": "(setsid {program} &) ; sleep 100"}


def check_killed_launcher(folder):
    """The program is one that catches nothing and knows nothing of the launcher."""
    for number, (what, wrapper) in enumerate(WRAPPERS.items()):
        script = wrapper.format(program=f"sh -c 'echo > {folder}/up$0.$DISTILL_RANK; while :; do sleep 1; done' {number}")
        process = subprocess.Popen(job.command("distillrun", 2, "/bin/sh", "-c", script),
                                   env=job.environment(**{MARK: f"{os.getpid()}.{number}"}))
        while not all(os.path.exists(f"{folder}/up{number}.{rank}") for rank in range(2)):
            job.check(process.poll() is None, f"{what}: the job ended")
            time.sleep(0.02)
        process.kill()
        process.wait()
        await_none(f"{os.getpid()}.{number}", f"the launcher is killed, the program is {what}")
    print("ok: a killed launcher leaves nothing behind wrapper scripts")


def check_killed_with_all_its_processes(folder):
    """Each rank of a program of ours ends by itself: nobody is left who could end it."""
    mark = f"{os.getpid()}.all"
    script = f"setsid {job.BIN}/distill_llm --config_file {folder}/long.json & wait"
    process = subprocess.Popen(job.command("distillrun", 2, "/bin/sh", "-c", script), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=job.environment(**{MARK: mark}))
    deadline = time.monotonic() + 60
    while not os.path.exists(f"{folder}/long/metrics.jsonl"):
        job.check(process.poll() is None and time.monotonic() < deadline, "the job did not begin to train")
        time.sleep(0.05)
    for pid in processes_of(mark):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                if file.read().strip() == "distillrun":
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended
    process.kill()
    process.wait()
    await_none(mark, "both processes of the launcher are killed")
    print("ok: ranks end with their launcher by themselves")


def check_failed_rank():
    code, output = distillrun(3, "if [ $DISTILL_RANK = 1 ]; then echo cannot read shard 7 >&2; exit 9; fi; sleep 1; "
                                 "echo rank 1 has left >&2; exit 1")
    job.check(code == 9 and "rank 1 ended with exit code 9, before the others; its last lines:\nrank 1: cannot read shard 7"
              in output, f"the first to fail: exit code {code}\n{output}")
    code, output = distillrun(2, "echo the same for all >&2; exit 2")
    job.check(code == 2 and output.count("distillrun:") <= 1, f"an error of all ranks: exit code {code}\n{output}")
    print("ok: the rank that failed first is named with its last lines")


def check_checkpointed():
    code, output = distillrun(2, "[ $DISTILL_RANK = 1 ] || sleep 2; exit 85")
    job.check(code == 85 and "distillrun:" not in output, f"exit code {code}\n{output}")
    code, output = distillrun(2, "[ $DISTILL_RANK = 1 ] && exit 85; sleep 1; exit 3")
    job.check(code == 3, f"a failure after a checkpoint: exit code {code}\n{output}")
    print("ok: exit code 85 is passed on, and is no failure")


def check_few_descriptors(folder):
    """A soft limit is raised; a hard one is named."""
    code, output = distillrun(2, f"ulimit -Sn 24; exec {job.BIN}/distill_llm --config_file {folder}/short.json")
    job.check(code == 0, f"a low soft limit: exit code {code}\n{output}")
    print("ok: a low soft limit of open files is raised")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=20)
    for name, steps in ("short", 2), ("long", 100000):
        os.rename(job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
                             student_model=f"{folder}/student", output_dir=f"{folder}/{name}", max_steps=steps),
                  f"{folder}/{name}.json")
    check_job_inside_a_job()
    check_killed_launcher(folder)
    check_failed_rank()
    check_checkpointed()
    check_few_descriptors(folder)
    check_killed_with_all_its_processes(folder)


main()
