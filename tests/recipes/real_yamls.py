"""The config files of all recipes' real runs pass --dry_run, option for option: models and data alone are replaced, by tiny ones."""
import csv
import glob
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

EXAMPLES = os.path.join(job.SOURCE, "examples")
folder = job.workspace()


def generate(recipe, *options):
    """What the recipe's own generator makes."""
    out = f"{folder}/{recipe}"
    subprocess.run([f"{EXAMPLES}/{recipe}/generate.py", "--out", out, *options], check=True, stdout=subprocess.DEVNULL)
    return out


def llm():
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    return {"teacher_model": f"{folder}/teacher", "student_model": f"{folder}/student",
            "dataset_name": job.make_chat(f"{folder}/chat.jsonl", rows=100),
            "eval_dataset_name": job.make_chat(f"{folder}/held_out.jsonl", rows=40, seed=2)}


def distilbert():
    """A teacher of as many layers as teacher_layers asks for; corpora as the hub's have them, a text a row."""
    shape = f"{folder}/bert"
    os.makedirs(shape)
    for path in glob.glob(f"{EXAMPLES}/distilbert/teacher/*"):
        with open(path, encoding="utf-8") as old, open(f"{shape}/{os.path.basename(path)}", "w", encoding="utf-8") as new:
            new.write(old.read())
    with open(f"{shape}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    with open(f"{shape}/config.json", "w", encoding="utf-8") as file:
        json.dump({**config, "num_hidden_layers": 12, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}, file)
    job.must_run([f"--{name}={value}" for name, value in {
        "student_checkpoint": shape, "output_dir": f"{folder}/bert_teacher", "use_demo_data": "true", "max_samples": 40, "max_length": 32,
        "alpha": 0, "gamma": 0, "max_steps": 1, "save_steps": 0, "device": "cpu"}.items()], program="distilbert")
    corpora = []
    for name in "wikipedia", "books":
        corpora.append(f"{folder}/{name}.jsonl")
        with open(corpora[-1], "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": f"the fox number {i} follows the berry . " * (1 + i % 20)}) + "\n" for i in range(80))
    return {"teacher_model": f"{folder}/bert_teacher", "dataset_name": ",".join(corpora)}


def squad():
    data = generate("squad")
    return {"model_name_or_path": f"{data}/model", "train_file": f"{data}/train.json", "validation_file": f"{data}/dev.json"}


def polarity():
    """Rows as the hub's data set has them: classes from 0, fields by name, a file for each split."""
    data = generate("polarity", "--train", "120", "--test", "70")
    os.makedirs(f"{data}/rows")
    for split in "train", "test":
        with open(f"{data}/{split}.csv", encoding="utf-8", newline="") as old, \
                open(f"{data}/rows/{split}.jsonl", "w", encoding="utf-8") as new:
            for label, title, content in csv.reader(old):
                new.write(json.dumps({"label": int(label) - 1, "title": title, "content": content}) + "\n")
    return {"student_model": f"{data}/student", "dataset_name": f"{data}/rows", "eval_dataset_name": f"{data}/rows"}


def brain2text():
    """The 45 sessions by their own names, each of them the same few trials."""
    data = f"{folder}/brain2text"
    subprocess.run([f"{job.BIN}/brain2text_recordings", f"{data}/made", "--days", "1", "--train_trials", "8", "--val_trials", "4",
                    "--features", "512"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{EXAMPLES}/brain2text/brain2text.yaml", encoding="utf-8") as file:
        sessions = set(re.findall(r"t15\.\d{4}\.\d\d\.\d\d", file.read()))
    job.check(len(sessions) == 45, f"{len(sessions)} sessions")
    for session in sessions:
        os.symlink(f"{data}/made/demo.2024.01.01", f"{data}/{session}")
    return {"dataset_dir": data, "n_units": 32}


def dry_run(program, config, options):
    began = time.monotonic()
    out = f"{folder}/{program}_out"
    arguments = [f"--{name}={value}" for name, value in {"device": "cpu", "output_dir": out, **options}.items()]
    place = f"{folder}/tmp"
    os.makedirs(place, exist_ok=True)
    code, output = job.run(["--dry_run", "--config_file", f"{EXAMPLES}/{config}", *arguments], ranks=2, program=program, TMPDIR=place)
    job.check(code == 0, f"{config}: exit code {code}\n{output}")
    for part in (rf"^dry run of {program}: this job runs$", r"^  done +one step: loss \d", r"eval_loss \d", r"^  written +nothing in "):
        job.check(re.search(part, output, re.M), f"{config}: nothing like '{part}' in\n{output}")
    job.check(not re.search(rf" is in {place}", output), f"{config}: it says what is in a folder that is gone\n{output}")
    job.check(os.listdir(place) == [] and not os.path.exists(out), f"{config}: something is left\n{output}")
    print(f"ok: {config}, {time.monotonic() - began:.1f} s")


if not os.path.exists(f"{job.BIN}/brain2text_recordings"):
    print("skipped: brain2text.yaml, since this build has no HDF5")
for recipe_program, recipe_config, replaced in (
        ("distill_llm", "llm/demo.yaml", llm), ("distilbert", "distilbert/distilbert.yaml", distilbert),
        ("squad", "squad/squad.yaml", squad), ("polarity", "polarity/polarity.yaml", polarity),
        ("brain2text", "brain2text/brain2text.yaml", brain2text)):
    if replaced is not brain2text or os.path.exists(f"{job.BIN}/brain2text_recordings"):
        dry_run(recipe_program, recipe_config, replaced())
