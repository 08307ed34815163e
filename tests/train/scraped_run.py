"""What a run prints is found by the metric definitions of a SageMaker estimator, and curves.png by whoever looks for it."""
import json
import os
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def train(program, folder, *arguments, ranks=2):
    command = [f"{job.BIN}/distillrun", "-np", str(ranks), program, f"{folder}/out", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    job.check(done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def printed(output, name):
    """The last line of the summary with that name."""
    lines = [line for line in output.splitlines() if line.startswith(f"{name} = ")]
    job.check(lines, f"no line '{name} = value' in\n{output}")
    return float(lines[-1].split(" = ")[1])


def check_scraped(output, steps):
    for name in ("train_runtime", "train_samples_per_second", "epoch", "f1", "exact_match", "train_loss", "eval_loss"):
        found = job.scraped(output, name)
        job.check(found, f"{name} is not found in\n{output}")
        final = f"eval_{name}" if name in ("f1", "exact_match") else name
        job.check(found[-1] == printed(output, final), f"the last {name} is {found[-1]}, not that of the end:\n{output}")
    job.check(len(job.scraped(output, "train_runtime")) == 1, output)
    job.check(len(job.scraped(output, "train_loss")) == steps + 1, output)
    job.check(len(job.scraped(output, "f1")) == steps // 10 + 1, output)
    job.check("tokens_per_second" not in output, f"a task without tokens has no such speed:\n{output}")
    job.check(job.scraped(output, "train_steps_per_second")[-1] > 0, output)
    job.check(f"step {steps}/" in output and "samples/s" in output, output)


def check_picture(path, panels, head=0):
    """The size that its panels need, and more than one colour."""
    with open(path, "rb") as file:
        content = file.read()
    job.check(content[:8] == b"\x89PNG\r\n\x1a\n", "curves.png is no PNG")
    pixels, at = b"", 8
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", content[at + 8:at + 16])
        if kind == b"IDAT":
            pixels += content[at + 8:at + 8 + size]
        at += size + 12
    pixels = zlib.decompress(pixels)
    job.check((width, height) == (1200, 58 + head + 300 * ((panels + 1) // 2)), f"curves.png is {width} x {height}")
    job.check(len(pixels) == height * (1 + 3 * width) and len(set(pixels)) > 20, "curves.png is cut, or blank")


def plot(*arguments, code=0):
    done = subprocess.run([f"{job.BIN}/distill_plot", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    job.check(done.returncode == code, f"exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def check_plot(folder):
    """Of several runs, of what is asked for, and what it says where that is not there."""
    picture = f"{folder}/compared.png"
    plot(f"{folder}/out", f"{folder}/out/metrics.jsonl", "--metrics", "eval_f1, loss", "--smooth", "5", "--output", picture)
    check_picture(picture, panels=2, head=24)
    job.check("usage: distill_plot RUN" in plot(code=2), "no usage")
    job.check("no record has 'bleu'; there are loss" in plot(f"{folder}/out", "--metrics", "bleu", code=2), "no names")
    job.check(f"{folder}: no metrics.jsonl or metrics.csv is there" in plot(folder, code=2), "a folder that is no run")
    os.remove(f"{folder}/out/curves.png")
    job.check(plot(f"{folder}/out") == f"{folder}/out/curves.png\n" and os.path.exists(f"{folder}/out/curves.png"), "another path")


def main():
    program, folder = sys.argv[1], job.workspace()
    check_scraped(train(program, folder, "30"), 30)
    # loss, f1, exact_match, grad_norm, learning_rate
    check_picture(f"{folder}/out/curves.png", panels=5)
    records = job.records(f"{folder}/out", "step")
    job.check(all(record["time"] <= later["time"] for record, later in zip(records, records[1:])), f"times fall: {records}")

    before = os.path.getsize(f"{folder}/out/curves.png")
    train(program, folder, "40", "--resume")
    job.check([record["step"] for record in job.records(f"{folder}/out")] == list(range(1, 41)), "steps are missing")
    check_picture(f"{folder}/out/curves.png", panels=5)
    printed_path = plot(f"{folder}/out", "--output", f"{folder}/again.png", "--title", f"{folder}/out")
    job.check(printed_path == f"{folder}/again.png\n", printed_path)
    with open(f"{folder}/out/curves.png", "rb") as mine, open(f"{folder}/again.png", "rb") as other:
        job.check(mine.read() == other.read(), f"a resumed run does not draw the earlier records ({before} bytes before)")
    check_plot(folder)
    print("ok: scraped, drawn, resumed; records have", json.dumps(sorted(records[0])))


main()
