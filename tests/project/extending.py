"""docs/extending.md: its programs are the files in examples/extending, and they train on two ranks."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

FOLDER = f"{job.SOURCE}/examples/extending"


def check_page():
    with open(f"{job.SOURCE}/docs/extending.md", encoding="utf-8") as file:
        shown = re.findall(r"```cpp\n(.*?)```\n", file.read(), flags=re.S)
    programs = sorted(name for name in os.listdir(FOLDER) if name.endswith(".cc"))
    for name in programs:
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            job.check(file.read() in shown, f"docs/extending.md does not show examples/extending/{name} as it is")
    job.check(len(shown) == len(programs), f"docs/extending.md shows {len(shown)} programs, not {len(programs)}")


def train(output, *arguments):
    command = [f"{job.BIN}/distillrun", "-np", "2", *arguments, output]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    job.check(done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    losses = [line["loss"] for _, line in sorted(job.metrics(output).items())]
    job.check(losses[-1] < losses[0], f"{' '.join(command)}: the loss did not fall: {losses}")
    print(f"ok: {os.path.basename(arguments[0])}, loss {losses[0]:.4f} to {losses[-1]:.4f}")
    return done.stdout


def main():
    check_page()
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=32)
    train(f"{folder}/loss", f"{job.BIN}/own_loss", f"{folder}/teacher", f"{folder}/student", f"{folder}/chat.jsonl")
    train(f"{folder}/model", f"{job.BIN}/own_model", f"{folder}/teacher", f"{folder}/chat.jsonl")
    printed = train(f"{folder}/task", f"{job.BIN}/own_task")
    job.check("slope 3.00, offset 0.50" in printed, f"not the line that was asked for: {printed}")


main()
