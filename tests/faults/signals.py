"""Signals and streams: a job outlives its terminal and the reader of its output, starts with closed streams, passes signals on
to its ranks as they are, and ends at once when it is asked twice."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def start(folder, name, script, ranks=2, **changes):
    """The job, once every rank has made its file; its handlers stand by then."""
    process = subprocess.Popen(job.command("distillrun", ranks, "/bin/sh", "-c", script.format(up=f"{folder}/{name}")),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=job.environment(**changes))
    while not all(os.path.exists(f"{folder}/{name}.{rank}") for rank in range(ranks)):
        job.check(process.poll() is None, f"{name}: the job ended:\n{process.stdout.read() if process.poll() else ''}")
        time.sleep(0.02)
    return process


def check_hangup(folder):
    process = start(folder, "hangup", "echo > {up}.$DISTILL_RANK; until [ -e {up}.go ]; do sleep 0.05; done")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    with open(f"{folder}/hangup.go", "w", encoding="utf-8"):
        pass
    output = process.communicate(timeout=30)[0]
    job.check(process.returncode == 0 and "the job keeps running" in output, f"SIGHUP: {process.returncode}\n{output}")
    done = subprocess.run(["nohup", *job.command("distillrun", 1, "/bin/sh", "-c", "kill -HUP $PPID; kill -HUP $$; sleep 0.2")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30, env=job.environment())
    job.check(done.returncode == 0, f"nohup: {done.returncode}\n{done.stdout}")
    print("ok: SIGHUP ends no job")


CATCH = "trap 'echo told-$DISTILL_RANK; exit {code}' {name}; echo > {{up}}.$DISTILL_RANK; while :; do sleep 0.05; done"


def check_passed_on(folder):
    for name in "TERM", "USR1", "USR2", "QUIT":
        # A script around the program that has no handler lives until the program has ended.
        script = f"sh -c \"{CATCH.format(code=85, name=name)}\"; exit $?".replace("$DISTILL", "\\$DISTILL")
        process = start(folder, name, script)
        process.send_signal(getattr(signal, f"SIG{name}"))
        output = process.communicate(timeout=30)[0]
        job.check(process.returncode == 85 and "told-0" in output and "told-1" in output,
                  f"SIG{name}: exit code {process.returncode}\n{output}")
    process = start(folder, "core", "ulimit -c 0; echo > {up}.$DISTILL_RANK; exec sleep 60")
    process.send_signal(signal.SIGQUIT)
    output = process.communicate(timeout=40)[0]
    job.check(process.returncode == 128 + signal.SIGQUIT and "was ended by signal 3 (Quit)" in output,
              f"SIGQUIT: exit code {process.returncode}\n{output}")
    print("ok: SIGTERM, SIGUSR1, SIGUSR2 and SIGQUIT go to the ranks as they are")


def check_asked_twice(folder):
    for first, second in (signal.SIGTERM, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM):
        name = f"twice{first}.{second}"
        process = start(folder, name, "trap : TERM INT; echo > {up}.$DISTILL_RANK; while :; do sleep 0.05; done")
        process.send_signal(first)
        while "passed on" not in process.stdout.readline():
            job.check(process.poll() is None, "SIGTERM ended ranks that have a handler")
        time.sleep(1.2)  # another SIGTERM within a second is the same one, which somebody sent to each process
        process.send_signal(second)
        process.communicate(timeout=30)  # the grace is 100 s
        job.check(process.returncode == 128 + second, f"{name}: exit code {process.returncode}")
    print("ok: a second signal ends the job at once")


def check_grace(folder):
    """Ranks that do not end after a notice are ended when their grace is over, and that is said."""
    script = "trap : TERM; echo > {up}.$DISTILL_RANK; while :; do sleep 0.05; done"
    process = start(folder, "grace", script, DISTILL_NOTICE_GRACE="1.5")
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=40)[0]
    job.check(process.returncode == 128 + signal.SIGTERM, f"exit code {process.returncode}\n{output}")
    job.check("ranks still run 1.5s after they were to save and end: ending them" in output, output)
    code, output = job.run(["true"], DISTILL_NOTICE_GRACE="soon")
    job.check(code == 2 and "DISTILL_NOTICE_GRACE wants a number of seconds, from 0 to a year's, not 'soon'" in output, output)
    print("ok: ranks that do not end after a notice are ended after their grace")


def check_streams(folder):
    out = f"{folder}/head"
    command = job.command("distillrun", 2, f"{job.BIN}/distill_llm", "--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher", student_model=f"{folder}/student",
        output_dir=out, max_steps=6))
    quoted = " ".join(f"'{word}'" for word in command)
    for name, script in {"a reader that goes": f"({quoted}; echo $? > {folder}/code) 2>&1 | head -n 1",
                         "closed streams": f"{quoted} <&- >&- 2>&-; echo $? > {folder}/code"}.items():
        subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.DEVNULL, timeout=120, env=job.environment(), check=True)
        with open(f"{folder}/code", encoding="utf-8") as file:
            code = file.read().strip()
        job.check(code == "0" and len(job.metrics(out)) == 6, f"{name}: exit code {code}")
        subprocess.run(["rm", "-r", out], check=True)
    print("ok: output that nobody reads, and closed streams, end no training")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=20)
    check_hangup(folder)
    check_passed_on(folder)
    check_asked_twice(folder)
    check_grace(folder)
    check_streams(folder)


main()
