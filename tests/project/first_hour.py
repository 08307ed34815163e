"""docs/first_hour.md: its commands run as they stand there, with small models and few rows under the page's names."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

ROWS = 260  # more than the page keeps out of training


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, flags=re.S | re.M)


def run_block(folder, block):
    environment = job.environment(PATH=f"{job.BIN}:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=400)
    job.check(done.returncode == 0, f"exit code {done.returncode}:\n{block}\n{done.stdout}")
    print("ok:", block.strip().split("\n")[0][:110], flush=True)
    return done.stdout


def prepare(folder, page):
    job.make_model(f"{folder}/Qwen2.5-7B-Instruct", seed=1, hidden=48)
    job.make_model(f"{folder}/Qwen2.5-0.5B-Instruct", seed=2)
    job.make_chat(f"{folder}/chats.jsonl", rows=ROWS)
    for name, kind in (("mine.yaml", "yaml"), ("mine.jinja", "jinja")):
        found = blocks(page, kind)
        job.check(len(found) == 1, f"the page shows {len(found)} blocks of {kind}")
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(found[0])


def check_results(folder, printed):
    job.check(sum(text.count("<|im_start|>user") > 0 for text in printed) >= 2, "--show-batch printed no conversation")
    for text in printed:
        if "<|im_start|>user" not in text:
            continue
        _, _, answers = text.partition("the likeliest tokens at the first places with a loss\n")
        for model in ("teacher", "student"):
            # Each token with its probability.
            job.check(re.search(rf"^  {model} \| .*\d", answers, flags=re.M), f"--show-batch has no tokens of the {model}:\n{text}")
    with open(f"{folder}/plan.txt", encoding="utf-8") as file:
        job.check("student" in file.read(), "--plan names no part of the memory")
    job.check(max(job.metrics(f"{folder}/runs/short")) == 30, "the short run was not resumed to step 30")
    job.check(os.path.exists(f"{folder}/runs/mine/model.safetensors"), "the whole run has no student")
    with open(f"{folder}/figures.json", encoding="utf-8") as file:
        figures = json.load(file)
    # Few steps of a low learning rate: that both were measured, not by how much they differ.
    job.check(set(figures) == {"before", "distilled"} and figures["before"] != figures["distilled"], f"{figures}")


def main():
    with open(f"{job.SOURCE}/docs/first_hour.md", encoding="utf-8") as file:
        page = file.read()
    for script in blocks(page, "bash"):
        subprocess.run(["bash", "-n", "-c", script], check=True)
    folder = job.workspace()
    prepare(folder, page)
    commands = [block for block in blocks(page, "sh") if not block.startswith("export PATH=")]
    job.check(len(commands) >= 7, f"only {len(commands)} blocks of commands are on the page")
    check_results(folder, [run_block(folder, block) for block in commands])


main()
