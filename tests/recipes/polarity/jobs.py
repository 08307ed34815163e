"""Jobs of polarity on made reviews: the same losses on one, two and four ranks, killed and resumed, learning from a teacher,
wrong input, the results file, and a model that transformers opens."""
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import job

TOLERANCE = 2e-5  # as tests/multirank/same_losses.py
TRAIN, TEST, GLOBAL_BATCH = 101, 53, 8  # primes: the last step of an epoch is short, and shorter on some ranks
STEPS_OF_EPOCH = math.ceil(TRAIN / GLOBAL_BATCH)


def arguments(folder, out, ranks=1, **options):
    return ["--config_file", job.config(folder, **{
        "dataset_name": f"{folder}/data/train.csv", "eval_dataset_name": f"{folder}/data/test.csv",
        "csv_columns": "label,title,content", "first_label": 1, "student_model": f"{folder}/data/student", "output_dir": out,
        "per_device_train_batch_size": GLOBAL_BATCH // ranks, "num_train_epochs": 2, "dropout": False, **options})]


def train(folder, name, ranks, **options):
    out = f"{folder}/{name}"
    output = job.must_run(arguments(folder, out, ranks, **options), ranks=ranks, program="polarity")
    return out, output


def same_losses(folder):
    alone, output = train(folder, "alone", 1, eval_steps=5, print_metrics=True)
    job.check_reports(alone, output)
    expected = job.metrics(alone)
    job.check(sorted(expected) == list(range(1, 2 * STEPS_OF_EPOCH + 1)), f"steps {sorted(expected)}")
    cases = {"four": (4, {}), "two": (2, {}), "accumulating": (1, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}),
             "zero3": (2, {"zero_stage": 3})}
    for name, (ranks, options) in cases.items():
        out, _ = train(folder, name, ranks, eval_steps=5, **options)
        for key, records in ("loss", ("ce", "loss", "grad_norm")), ("eval_accuracy", ("eval_loss", "eval_accuracy")):
            a, b = job.metrics(alone, key), job.metrics(out, key)
            job.check(sorted(a) == sorted(b), f"{name}: {key} at {sorted(b)}")
            for step in a:
                for value in records:
                    limit = TOLERANCE * (10 if value == "grad_norm" else 1)
                    job.check(abs(a[step][value] - b[step][value]) <= limit * abs(a[step][value]) + 1e-9,
                              f"{name}, step {step}: {value} {b[step][value]}, expected {a[step][value]}")
        print(f"ok: {name}, the losses of one rank")
    counts = job.records(alone, "eval_samples_negative")[-1]
    job.check(counts["eval_samples_negative"] + counts["eval_samples_positive"] == TEST, counts)
    job.check(counts["eval_predicted_negative"] + counts["eval_predicted_positive"] == TEST, counts)
    correct = counts["eval_correct_negative"] + counts["eval_correct_positive"]
    job.check(abs(correct / TEST - counts["eval_accuracy"]) < 1e-12, counts)
    return alone


def resume(folder):
    whole, _ = train(folder, "whole", 2, save_steps=4, num_train_epochs=8, dropout=True)
    out = f"{folder}/broken"
    options = {"save_steps": 4, "num_train_epochs": 8, "dropout": True}
    job.kill_after(f"{out}/checkpoint-8", arguments(folder, out, 2, **options), program="polarity")
    steps = 8 * STEPS_OF_EPOCH
    job.check(not os.path.isdir(f"{out}/checkpoint-{steps}"), "the job was over before it was killed: make it longer")
    job.must_run(arguments(folder, out, 2, resume_from_checkpoint="latest", **options), ranks=2, program="polarity")
    expected, found = job.metrics(whole), job.metrics(out)
    job.check(sorted(expected) == sorted(found) == list(range(1, steps + 1)), f"steps {sorted(found)}")
    for step, line in expected.items():
        for key in "loss", "ce", "grad_norm", "learning_rate", "epoch":
            job.check(line[key] == found[step][key], f"step {step}: {key} {found[step][key]} instead of {line[key]}")
    print("ok: killed and resumed, bit for bit")


def scaled_and_recorded(folder):
    """Two runs leave a line each."""
    results = f"{folder}/results.jsonl"
    _, output = train(folder, "scaled", 2, learning_rate_scaling="linear", base_global_batch=2, learning_rate=1e-3, results_file=results,
                      num_train_epochs=1, warmup_ratio=0)
    job.check("learning rate 1e-3 x 4 = 4e-3, since the global batch is 8 and learning_rate is for 2" in output, output)
    job.check("raised without a warm-up" in output, output)
    train(folder, "root", 1, learning_rate_scaling="sqrt", base_global_batch=2, learning_rate=1e-3, results_file=results, num_train_epochs=1,
          max_train_samples=40, max_eval_samples=20)
    with open(results, encoding="utf-8") as file:
        scaled, root = map(json.loads, file)
    job.check(math.isclose(scaled["learning_rate"], 4e-3) and math.isclose(root["learning_rate"], 2e-3), (scaled, root))
    job.check(math.isclose(job.metrics(f"{folder}/scaled")[1]["learning_rate"], 4e-3), "the first step's rate")
    job.check((scaled["world_size"], scaled["global_batch"], scaled["train_samples"], scaled["steps"]) == (2, 8, TRAIN, STEPS_OF_EPOCH),
              scaled)
    job.check((root["train_samples"], root["steps"]) == (40, 5), root)
    job.check(root["eval_samples_negative"] + root["eval_samples_positive"] == 20, root)
    job.check(scaled["eval_accuracy"] == job.records(f"{folder}/scaled", "eval_accuracy")[-1]["eval_accuracy"], scaled)
    job.check(0 < scaled["median_step_seconds"] < scaled["train_runtime"] < scaled["wall_seconds"], scaled)
    job.check(0 < scaled["startup_seconds"] < scaled["wall_seconds"] - scaled["train_runtime"], scaled)
    job.check(math.isclose(scaled["train_samples_per_second"], TRAIN / scaled["train_runtime"], rel_tol=1e-6), scaled)
    with open(f"{folder}/scaled/resolved_config.yaml", encoding="utf-8") as file:
        job.check(re.search(r"^learning_rate: 0\.001$", file.read(), re.M), "what is kept has the rate as it was given")
    print("ok: scaled, and recorded")


def distilled(folder, teacher):
    """Of its own weights: no divergence but the teacher's dropout, which is off."""
    out, _ = train(folder, "distilled", 2, teacher_model=teacher, max_steps=4, alpha=0.25, temperature=3.0)
    for step, line in job.metrics(out).items():
        job.check(line["kl"] > 0 and abs(0.75 * line["ce"] + 0.25 * line["kl"] - line["loss"]) < 1e-5, f"{step}: {line}")
    out, _ = train(folder, "itself", 1, student_model=teacher, teacher_model=teacher, max_steps=1, alpha=0.25)
    job.check(abs(job.metrics(out)[1]["kl"]) < 1e-6, job.metrics(out))
    print("ok: learns from a teacher")


def refused(folder):
    def expect(what, *parts, **options):
        code, output = job.run(arguments(folder, f"{folder}/none", **options), ranks=2, program="polarity")
        said = [line for line in output.splitlines() if line.startswith("error: ")]
        job.check(code == 2 and len(said) == 1 and all(part in output for part in parts), f"{what}: exit code {code}\n{output}")
        print(f"ok: {what}")

    data = f"{folder}/data"
    bad = f"{folder}/bad.csv"
    with open(f"{data}/train.csv", encoding="utf-8") as rows, open(f"{folder}/named.csv", "w", encoding="utf-8") as named:
        named.write("label,title,content\n" + rows.read())
    with open(bad, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([(1, "a", "b"), (3, "a", "b"), ("good", "a", "b"), (2, "a")])
    expect("labels and rows that are wrong", f"{bad}:2: 'label' is 3, but there are 2 labels from 1 on", f"{bad}:3: 'label' is 'good'",
           f"{bad}:4: the row has 2 values, but csv_columns names 3 columns", dataset_name=bad)
    expect("a column that is not there", "the field 'title' is missing", csv_columns="label,head,content")
    expect("labels that count from 1", "set first_label to 1, if rows count from 1", first_label=0)
    empty, names = f"{folder}/empty.csv", f"{folder}/names.csv"
    with open(empty, "w", encoding="utf-8"), open(names, "w", encoding="utf-8") as file:
        file.write("label,title,content\n")
    expect("an empty file", f"dataset_name: {empty}: the data set is empty", dataset_name=empty)
    expect("a file of names alone", f"eval_dataset_name: {names}: the data set is empty", csv_columns="", dataset_name=f"{folder}/named.csv",
           eval_dataset_name=names)
    expect("a file of another kind", "vocab.txt:1: not valid JSON", dataset_name=f"{data}/student/vocab.txt")
    shutil.copy(f"{data}/train.csv", f"{folder}/not.parquet")
    expect("a file that is no Parquet", "dataset_name: ", "not.parquet", csv_columns="", dataset_name=f"{folder}/not.parquet")
    expect("no data", "dataset_name: ", "none.csv", dataset_name=f"{folder}/none.csv")
    expect("no model", "student_model: ", "no-model", student_model=f"{folder}/no-model")
    expect("a teacher that is no classifier", "teacher_model: ", teacher_model=f"{data}/teacher")
    expect("evaluations of nothing", "need held-out reviews", eval_dataset_name="", eval_steps=2)
    expect("packed rows", "packing: each row of a batch is one review", packing=True)
    expect("a rate for steps that lengths make", "learning_rate_scaling needs steps of one number of rows",
           learning_rate_scaling="linear", max_tokens_per_batch=512, per_device_train_batch_size=1)
    expect("one class", "labels: there are 1; name two classes or more", labels="good")
    expect("a class twice", "labels: 'good' is named twice", labels="good,bad,good")
    expect("a pair of three", "a pair is of two texts, but text_columns names 3", text_columns=["label", "title", "content"])


def real_config(folder):
    """The YAML of the real run makes a step, with the demo's model and folders of rows in the places of the hub's."""
    data = f"{folder}/data"
    code, output = job.run(["--config_file", f"{job.SOURCE}/examples/polarity/polarity.yaml", "--dry_run", "--dataset_name", data,
                            "--eval_dataset_name", data, "--csv_columns", "label,title,content", "--first_label", "1", "--student_model",
                            f"{data}/student", "--output_dir", f"{folder}/real", "--device", "cpu"], ranks=2, program="polarity")
    job.check(code == 0 and "dry run of polarity: this job runs" in output and "eval_accuracy" in output, output)
    job.check(re.search(r"learning rate 5e-5 x 0\.3536 = 1\.768e-5, since the global batch is 4 and", output), output)
    job.check(not os.path.exists(f"{folder}/real"), "the dry run has written where the run would write")
    print("ok: the real config")


def in_transformers(folder, out):
    """The saved folder gives the accuracy that the run has printed."""
    model, info = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
    job.check(not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info)
    job.check(model.config.id2label == {0: "negative", 1: "positive"}, model.config.id2label)
    tokenizer = transformers.BertTokenizer(vocab=f"{out}/vocab.txt")
    with open(f"{folder}/data/test.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    right = 0
    with torch.no_grad():
        for label, title, content in rows:
            ids = tokenizer(title, content, return_tensors="pt")
            right += model(input_ids=ids["input_ids"]).logits.argmax().item() + 1 == int(label)
    printed = job.records(out, "eval_accuracy")[-1]["eval_accuracy"]
    job.check(abs(right / TEST - printed) < 1e-9, f"transformers' accuracy is {right / TEST}, ours {printed}")
    print("ok: transformers opens the model")


def main():
    torch.set_num_threads(1)
    folder = job.workspace()
    subprocess.run([f"{job.SOURCE}/examples/polarity/generate.py", "--out", f"{folder}/data", "--train", str(TRAIN), "--test", str(TEST)],
                   check=True)
    alone = same_losses(folder)
    in_transformers(folder, alone)
    resume(folder)
    scaled_and_recorded(folder)
    distilled(folder, alone)
    real_config(folder)
    refused(folder)


main()
