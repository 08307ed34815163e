"""scripts/quickstart gives what it promises: its figures, the order of the students, the curves, an untouched hold-out; and the same
losses and figures where its data come out of S3."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(SOURCE, "runs", "quickstart")


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def parameters(folder):
    """How many values a model.safetensors holds."""
    with open(f"{folder}/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            count = 1
            for size in tensor["shape"]:
                count *= size
            total += count
    return total


def check_summary():
    with open(f"{OUT}/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    for name in ("teacher", "before", "labels_only", "distilled"):
        check({"loss", "kl", "top1_agreement", "calibration_error", "exact_match"} <= set(summary[name]), f"summary of {name}: {summary[name]}")
    teacher, labels, distilled = summary["teacher"], summary["labels_only"], summary["distilled"]
    check(teacher["exact_match"] >= 0.9 and abs(teacher["kl"]) < 1e-4, f"teacher: {teacher}")
    check(summary["before"]["exact_match"] < 0.05, f"before training: {summary['before']}")
    check(distilled["exact_match"] > labels["exact_match"], f"exact match: {distilled} against {labels}")
    check(distilled["kl"] < labels["kl"], f"KL: {distilled} against {labels}")
    check(summary["seconds"] > 0, "no time")


def check_sizes():
    teacher, student = parameters(f"{SOURCE}/examples/llm/teacher"), parameters(f"{OUT}/distilled")
    check(teacher >= 2_000_000 and student * 4 <= teacher, f"teacher {teacher} and student {student} parameters")
    with open(f"{SOURCE}/examples/llm/teacher/config.json", encoding="utf-8") as file:
        check(json.load(file)["vocab_size"] >= 1000, "the vocabulary is below 1,000")
    with open(f"{OUT}/data/held_out.jsonl", encoding="utf-8") as file:
        check(sum(1 for _ in file) >= 500, "fewer than 500 held-out prompts")


def run(*words):
    done = subprocess.run([f"{SOURCE}/scripts/quickstart", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    check(done.returncode == 0, f"exit code {done.returncode}")
    return done.stdout


def losses(folder):
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [(record["step"], record.get("loss"), record.get("eval_loss")) for record in records]


def must_do(*words):
    done = subprocess.run([f"{SOURCE}/build/bin/{words[0]}", *words[1:]], cwd=SOURCE)
    check(done.returncode == 0, f"exit code {done.returncode} of {' '.join(words)}")


def figures(path, name):
    with open(path, encoding="utf-8") as file:
        found = json.load(file)[name]
    return {key: value for key, value in found.items() if key != "tokens_per_second"}  # no figure of the data's


def check_s3(folder):
    """A shorter training: the data are the same ones from its first step on."""
    steps = "60"
    said = run("--s3", "--steps", steps)
    check("-> s3://quickstart/data/train.jsonl" in said, "the data were not copied to S3")
    local = f"{folder}/distilled"
    must_do("distillrun", "-np", "2", f"{SOURCE}/build/bin/distill_llm", "--config_file", "examples/llm/demo.yaml", "--output_dir", local,
            "--max_steps", steps)
    must_do("evaluate_llm", "--teacher_model", "examples/llm/teacher", "--dataset_name", f"{OUT}/data/held_out.jsonl", "--json",
            f"{folder}/summary.json", f"distilled={local}")
    found, expected = losses(f"{OUT}/distilled"), losses(local)
    check(len(expected) > 2 and found == expected, f"data out of S3 give other losses than the same files: {found}, {expected}")
    found, expected = figures(f"{OUT}/summary.json", "distilled"), figures(f"{folder}/summary.json", "distilled")
    check(found == expected, f"held-out prompts out of S3 give other figures than the same file: {found}, {expected}")


def main():
    if shutil.which("radosgw") is None:
        print("skipped in part: there is no S3 server for quickstart --s3 (scripts/setup --s3)")
    else:
        with tempfile.TemporaryDirectory() as folder:
            check_s3(folder)
    run()  # the last one: what it leaves is what README.md says
    check_summary()
    check_sizes()
    with open(f"{OUT}/curves.png", "rb") as file:
        check(file.read(8) == b"\x89PNG\r\n\x1a\n", "curves.png is no PNG")
    held_out = subprocess.run(["/usr/bin/python3", f"{SOURCE}/examples/llm/check_held_out.py",
                               f"{OUT}/data/held_out.jsonl", f"{OUT}/data/train.jsonl"])
    check(held_out.returncode == 0, "a held-out prompt occurs in training")


main()
