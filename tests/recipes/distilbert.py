"""The program distilbert: one rank and two train to the same losses, a run that was killed resumes exactly, and bad input ends in
one clear error. distilbert_demo.py has its demo's figures."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

PROGRAM = "distilbert"
EXAMPLE = f"{job.SOURCE}/examples/distilbert"
TOLERANCE = 2e-5


def train(out, *arguments, ranks=1):
    return job.must_run(["--device", "cpu", "--output_dir", out, *arguments], ranks=ranks, program=PROGRAM)


def short(teacher, **options):
    """A few steps on the demo's texts."""
    values = {"teacher_model": teacher, "use_demo_data": "true", "max_samples": 90, "max_length": 64, "max_steps": 6,
              "per_device_train_batch_size": 4, "global_batch_size": 16, **options}
    return [f"--{name}={value}" for name, value in values.items()]


def compare(expected, found, name, tolerance):
    job.check(sorted(expected) == sorted(found), f"{name}: steps {sorted(found)} instead of {sorted(expected)}")
    for step, line in expected.items():
        for key in "loss", "kl", "mlm", "cosine", "grad_norm":
            a, b = line[key], found[step][key]
            limit = tolerance * (10 if key == "grad_norm" else 1)
            job.check(abs(a - b) <= limit * abs(a), f"{name}, step {step}: {key} {b}, expected {a}")
    print(f"ok: {name}")


def same_losses(folder, teacher):
    train(f"{folder}/one", *short(teacher))
    train(f"{folder}/two", *short(teacher), ranks=2)
    compare(job.metrics(f"{folder}/one"), job.metrics(f"{folder}/two"), "two ranks train to the losses of one", TOLERANCE)
    output = train(f"{folder}/three", *short(teacher), ranks=3)
    job.check("a step is 3 ranks x 5 rows = 15 rows, the nearest lower multiple of 3 to global_batch_size 16" in output, output)
    print("ok: a global batch that ranks do not divide")


def killed(folder, teacher):
    options = dict(save_steps=2, max_steps=12, max_samples=200)
    train(f"{folder}/whole", *short(teacher, **options), ranks=2)
    out = f"{folder}/broken"
    job.kill_after(f"{out}/checkpoint-4", ["--device", "cpu", "--output_dir", out, *short(teacher, **options)], program=PROGRAM)
    output = train(out, *short(teacher, **options), "--resume_from_checkpoint", "latest", ranks=2)
    job.check("resum" in output.lower(), output)
    compare(job.metrics(f"{folder}/whole"), job.metrics(out), "killed and resumed, bit for bit", 0)


def refused(name, arguments, *parts, ranks=2):
    code, output = job.run(["--device", "cpu", *arguments], ranks=ranks, program=PROGRAM)
    job.check(code == 2, f"{name}: exit code {code}\n{output}")
    for part in parts:
        job.check(part in output, f"{name}: no '{part}' in\n{output}")
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    job.check(len(said) == 1, f"{name}: {len(said)} errors in\n{output}")
    print(f"ok: {name}")


def changed(folder, name, model, file, change):
    """A copy of a model's folder in which one JSON file is another."""
    to = shutil.copytree(model, f"{folder}/{name}", ignore=shutil.ignore_patterns("checkpoint*", "tensorboard"))
    with open(f"{to}/{file}", encoding="utf-8") as old:
        values = json.load(old)
    change(values)
    with open(f"{to}/{file}", "w", encoding="utf-8") as new:
        json.dump(values, new)
    return to


def without_mask(config):
    config.pop("mask_token")
    config["tokenizer_class"] = "PreTrainedTokenizerFast"  # BertTokenizer has one whatever its config says


def bad_input(folder, teacher):
    out = f"--output_dir={folder}/none"
    refused("a layer that the teacher has not", [out, *short(teacher, teacher_layers="0,4")],
            "teacher_layers: there is no layer 4: the teacher has 4, 0 to 3")
    refused("longer texts than positions", [out, *short(teacher, max_length=65)], "max_length is 65, but teacher_model",
            "has positions for 64")
    refused("less than a row for each rank", [out, *short(teacher, global_batch_size=1)],
            "global_batch_size is 1, which is less than a row for each of 2 ranks")
    no_mask = changed(folder, "no_mask", teacher, "tokenizer_config.json", without_mask)
    refused("a tokenizer without a mask token", [out, *short(no_mask)], "teacher_model", "the tokenizer has no mask token")
    swapped = changed(folder, "swapped", teacher, "tokenizer.json",
                      lambda tokenizer: tokenizer["model"]["vocab"].update(fox=tokenizer["model"]["vocab"]["wolf"],
                                                                           wolf=tokenizer["model"]["vocab"]["fox"]))
    refused("a student of another vocabulary", [out, *short(teacher, student_checkpoint=swapped)], swapped, "fox", "wolf")
    narrow = changed(folder, "narrow", f"{EXAMPLE}/teacher", "config.json", lambda config: config.update(hidden_size=48))
    refused("a student of another width", [out, *short(teacher, student_checkpoint=narrow)],
            "cosine_weight: the teacher's states have 96 numbers, the student's 48")
    rows = f"{folder}/rows.jsonl"
    with open(rows, "w", encoding="utf-8") as file:
        file.write(json.dumps({"page": "the fox hunts the mouse"}) + "\n")
    text = [argument for argument in short(teacher) if not argument.startswith("--use_demo_data")]
    refused("rows without the text column", [out, *text, f"--dataset_name={rows}"], "dataset_name", "rows.jsonl:1", "'text'")
    refused("no such file", [out, *text, f"--dataset_name={folder}/nothing.jsonl"], "dataset_name", "no such file")
    refused("a teacher that is none", [out, *short(f"{folder}/nothing")], "teacher_model", "no folder")
    job.check(not os.path.exists(f"{folder}/none"), "a refused run wrote")


def corpora(folder, teacher):
    """Two sources with weights, of which the tokens are kept once; another name for the text's field."""
    for name, word in ("wiki", "fox"), ("books", "baker"):
        with open(f"{folder}/{name}.jsonl", "w", encoding="utf-8") as file:
            for i in range(40):
                file.write(json.dumps({"page": f"the {word} follows the berry . " * (1 + i % 20)}) + "\n")
    values = dict(max_length=32, max_steps=2, per_device_train_batch_size=4, global_batch_size=8, text_column="page",
                  dataset_name=f"{folder}/wiki.jsonl,{folder}/books.jsonl", dataset_weights="3,1", max_samples=30,
                  cache_dir=f"{folder}/cache", teacher_model=teacher, validation_split=0.2)
    output = train(f"{folder}/corpora", *[f"--{name}={value}" for name, value in values.items()], ranks=2)
    job.check(output.count("texts 30, pieces ") == 2, output)
    kept = [name for name in os.listdir(f"{folder}/cache") if not name.endswith(".lock")]
    job.check(len(kept) == 2, f"in the cache: {kept}")
    print("ok: two corpora")


def main():
    folder = job.workspace()
    teacher = f"{folder}/teacher"
    train(teacher, "--config_file", f"{EXAMPLE}/teacher.yaml", "--student_checkpoint", f"{EXAMPLE}/teacher", "--max_steps", "20", ranks=2)
    same_losses(folder, teacher)
    killed(folder, teacher)
    bad_input(folder, teacher)
    corpora(folder, teacher)


main()
