"""docs/extending.md: its programs are the files in examples/extending, and they train on two ranks."""
import glob
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
    files = [f"examples/extending/{name}" for name in sorted(os.listdir(FOLDER)) if name.endswith(".cc")]
    files.append("libdistill/nn/families/smollm3.cc")
    for name in files:
        with open(f"{job.SOURCE}/{name}", encoding="utf-8") as file:
            job.check(file.read() in shown, f"docs/extending.md does not show {name} as it is")
    job.check(len(shown) == len(files), f"docs/extending.md shows {len(shown)} files, not {len(files)}")


def check_families():
    """docs/extending.md says how long a family's file may be."""
    for path in glob.glob(f"{job.SOURCE}/libdistill/nn/families/*.cc"):
        with open(path, encoding="utf-8") as file:
            lines = len(file.readlines())
        job.check(lines <= 120, f"{path} has {lines} lines: what it needs more than 120 for belongs to the decoder")


def check_fields():
    """Each field of the page's tables is in the struct's header."""
    with open(f"{job.SOURCE}/docs/extending.md", encoding="utf-8") as file:
        rows = re.findall(r"^\| `(\w+)`, `(\w+/\w+\.h)`[^|]*\|(.*)\|$", file.read(), flags=re.M)
    job.check(len(rows) >= 9, f"only {len(rows)} structs are in docs/extending.md's tables")
    for struct, header, cells in rows:
        with open(f"{job.SOURCE}/libdistill/{header}", encoding="utf-8") as file:
            body = re.search(rf"^struct {struct} {{\n(.*?)^}};", file.read(), flags=re.S | re.M)
        job.check(body, f"{header} has no struct {struct}")
        named = re.sub(r"\([^)]*\)", "", cells.split("|")[-1])
        fields = re.findall(r"`(\w+)`", named)
        missing = [field for field in fields if not re.search(rf"\b{field}( = | = \{{|;|\{{)", body[1])]
        job.check(fields and not missing, f"{struct} has no {missing or 'fields'}, which docs/extending.md names")


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
    check_families()
    check_fields()
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=32)
    train(f"{folder}/loss", f"{job.BIN}/own_loss", f"{folder}/teacher", f"{folder}/student", f"{folder}/chat.jsonl")
    train(f"{folder}/model", f"{job.BIN}/own_model", f"{folder}/teacher", f"{folder}/chat.jsonl")
    with open(f"{folder}/points.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{i / 8} {(i / 8) ** 2}\n" for i in range(16))
    train(f"{folder}/recipe", f"{job.BIN}/own_recipe", "--points", f"{folder}/points.txt", "--lr", "0.05", "--max_steps", "8", "--output_dir")
    printed = train(f"{folder}/task", f"{job.BIN}/own_task")
    job.check("slope 3.00, offset 0.50" in printed, f"not the line that was asked for: {printed}")


main()
