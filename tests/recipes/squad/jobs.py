"""Whole jobs of squad: the same losses on one rank and on two, killed and resumed, with a teacher, evaluated alone, v2.0, and
what is wrong with what it is given.

jobs.py FOLDER: demo.py has left its data and its model there.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import job
import scraped

DEMO = sys.argv[1]
SQUAD = os.path.join(job.SOURCE, "examples", "squad")
TOLERANCE = 2e-5


def arguments(folder, out, **options):
    return ["--config_file", job.config(folder, output_dir=out, **{
        "model_name_or_path": f"{DEMO}/data/model", "train_file": f"{DEMO}/data/train.json",
        "validation_file": f"{DEMO}/data/dev.json", "do_train": True, "do_eval": True,
        "max_train_samples": 160, "max_eval_samples": 40, "max_length": 48, "doc_stride": 16,
        "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8, **options})]


def compare(expected, found, name, keys=("loss", "grad_norm")):
    job.check(expected.keys() == found.keys() and expected, f"{name}: steps {sorted(found)}, expected {sorted(expected)}")
    for step in expected:
        for key in keys:
            a, b = expected[step][key], found[step][key]
            job.check(abs(a - b) <= TOLERANCE * (10 if key == "grad_norm" else 1) * abs(a), f"{name}, step {step}: {key} {b}, not {a}")
    print(f"ok: {name}, {len(expected)} steps")


def check_ranks(folder):
    ends = {}
    for ranks, rows in (1, 8), (2, 4):
        out = f"{folder}/ranks{ranks}"
        output = job.must_run(arguments(folder, out, per_device_train_batch_size=rows, eval_steps=5, print_metrics=True), ranks=ranks,
                              program="squad")
        job.check_reports(out, output)
        with open(f"{out}/predictions.json", encoding="utf-8") as file:
            ends[ranks] = (job.metrics(out), job.metrics(out, "eval_f1"), json.load(file))
    compare(ends[1][0], ends[2][0], "one rank and two")
    compare(ends[1][1], ends[2][1], "their evaluations", ("eval_f1", "eval_exact_match", "eval_loss"))
    job.check(ends[1][2] == ends[2][2], "they predict other answers")


def check_resume(folder):
    whole, broken = f"{folder}/whole", f"{folder}/broken"
    options = dict(save_steps=4, num_train_epochs=6, max_train_samples=120)
    job.must_run(arguments(folder, whole, **options), ranks=2, program="squad")
    job.kill_after(f"{broken}/checkpoint-4", arguments(folder, broken, **options), program="squad")
    job.must_run(arguments(folder, broken, resume_from_checkpoint="latest", **options), ranks=2, program="squad")
    expected, found = job.metrics(whole), job.metrics(broken)
    job.check(sorted(expected) == sorted(found), f"resumed: steps {sorted(found)}")
    for step in expected:
        job.check(expected[step]["loss"] == found[step]["loss"], f"resumed, step {step}: {found[step]} and {expected[step]}")
    for name in "model.safetensors", "predictions.json", "nbest_predictions.json":
        with open(f"{whole}/{name}", "rb") as a, open(f"{broken}/{name}", "rb") as b:
            job.check(a.read() == b.read(), f"{name} is another one when the run was killed and resumed")
    print(f"ok: killed and resumed, {len(expected)} steps")


def check_teacher(folder):
    """A teacher lowers the divergence from it, and the losses are the weighted ones."""
    out = f"{folder}/taught"
    job.must_run(arguments(folder, out, teacher_model=f"{DEMO}/demo", alpha=0.75, temperature=3.0, num_train_epochs=4,
                           learning_rate=2e-3), ranks=2, program="squad")
    lines = job.records(out)
    for line in lines:
        job.check(abs(line["loss"] - (0.25 * line["ce"] + 0.75 * line["kl"])) < 1e-4 * line["loss"], f"no weighted sum: {line}")
    job.check(lines[-1]["kl"] < 0.8 * lines[0]["kl"], f"kl from {lines[0]['kl']} to {lines[-1]['kl']}")
    print(f"ok: a teacher, kl from {lines[0]['kl']:.3f} to {lines[-1]['kl']:.3f}")


def check_evaluation_alone(folder):
    """do_eval without do_train gives the figures that the training ended with, on rows of another format, too."""
    end = job.records(f"{DEMO}/demo", "eval_f1")[-1]
    rows = f"{folder}/rows"
    os.makedirs(rows)
    with open(f"{DEMO}/data/dev.json", encoding="utf-8") as file, open(f"{rows}/validation.jsonl", "w", encoding="utf-8") as out:
        for article in json.load(file)["data"]:
            for paragraph in article["paragraphs"]:
                for qa in paragraph["qas"]:
                    answers = {key: [answer[key] for answer in qa["answers"]] for key in ("text", "answer_start")}
                    out.write(json.dumps({"id": qa["id"], "title": article["title"], "context": paragraph["context"],
                                          "question": qa["question"], "answers": answers}) + "\n")
    for name, source in ("file", {}), ("folder", {"validation_file": "", "train_file": "", "dataset_name": rows}):
        output = job.must_run(arguments(folder, f"{folder}/evaluated-{name}", model_name_or_path=f"{DEMO}/demo", do_train=False,
                                        max_eval_samples=0, max_length=64, doc_stride=24, **source), program="squad")
        for key in "eval_f1", "eval_exact_match":
            job.check(f"{key} = {end[key]:.6g}\n" in output, f"{key} is not {end[key]} in\n{output}")
        job.check(os.path.exists(f"{folder}/evaluated-{name}/predictions.json"), "no predictions.json")
    print("ok: evaluated alone")


def check_v2(folder):
    data, out = f"{folder}/v2", f"{folder}/v2-out"
    subprocess.run([f"{SQUAD}/generate.py", "--out", data, "--unanswerable", "0.4", "--train", "400", "--dev", "60"], check=True)
    options = dict(model_name_or_path=f"{data}/model", train_file=f"{data}/train.json", validation_file=f"{data}/dev.json",
                   max_train_samples=0, max_eval_samples=0)
    code, output = job.run(arguments(folder, out, **options), program="squad")
    job.check(code == 2 and "set version_2_with_negative" in output, f"v2.0 without its option:\n{output}")
    output = job.must_run(arguments(folder, out, version_2_with_negative=True, **options), program="squad")
    for name in "exact", "f1", "HasAns_f1", "NoAns_exact", "best_f1_thresh":
        job.check(f"eval_{name} = " in output, f"no {name} in\n{output}")
    scraped.check(output, job.records(out, "eval_f1")[-1])
    with open(f"{out}/null_odds.json", encoding="utf-8") as file:
        job.check(len(json.load(file)) == 60, "null_odds.json has not 60 questions")
    print("ok: v2.0")


def check_real_config(folder):
    """The YAML of the real run makes a step, in float16 too, with the demo's model in the place of BERT-large."""
    output = job.must_run(["--config_file", f"{SQUAD}/squad.yaml", "--dry_run", "--model_name_or_path", f"{DEMO}/data/model",
                           "--train_file", f"{DEMO}/data/train.json", "--validation_file", f"{DEMO}/data/dev.json", "--output_dir",
                           f"{folder}/real", "--device", "cpu"], program="squad", ranks=2)
    job.check("this job runs" in output and "eval_f1" in output, f"no step was made:\n{output}")
    job.check("fp16: this CPU computes float16 by way of float32" in output, f"nothing is said about float16:\n{output}")
    job.check("pad_to_max_length: true: padding is neither computed" in output, f"nothing is said about padding:\n{output}")
    job.check(not os.path.exists(f"{folder}/real"), "the dry run has written where the run would write")
    print("ok: the real config")


def check_float16(folder):
    losses = {}
    for fp16 in False, True:
        out = f"{folder}/fp16-{fp16}"
        job.must_run(arguments(folder, out, fp16=fp16, max_steps=6, do_eval=False, validation_file=""), program="squad")
        losses[fp16] = [line["loss"] for line in job.records(out)]
    job.check(all(abs(a - b) < 5e-3 * a for a, b in zip(losses[False], losses[True])), f"float16: {losses}")
    print("ok: float16")


def check_refused(folder):
    def refuses(what, code=2, **options):
        found, output = job.run(arguments(folder, f"{folder}/refused", **options), program="squad")
        errors = [line for line in output.splitlines() if "error: " in line]
        job.check(found == code and len(errors) == 1 and what in output, f"exit code {found}, not one error with '{what}':\n{output}")

    def file(name, text):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as out:
            out.write(text)
        return f"{folder}/{name}"

    refuses("nothing is to be done: set do_train, do_eval, or both", do_train=False, do_eval=False)
    refuses("do_eval needs data: give validation_file, or dataset_name", validation_file="")
    refuses("model_name_or_path is missing", model_name_or_path="")
    refuses("packing: an answer is looked for in one context alone", packing=True)
    refuses("train_file", train_file=f"{folder}/none.json")
    refuses("a .json file of questions is SQuAD's", train_file=file("list.json", "[]"))
    refuses("not valid JSON", train_file=file("cut.json", '{"data": [{"title"'))
    refuses("rows.jsonl:1: the field 'question' is missing", train_file=file("rows.jsonl", '{"context": "a"}\n'))
    refuses("rows.csv", train_file=file("rows.csv", "id,question\n1,why\n"))
    refuses("has no weights", do_train=False)
    empty = file("empty.txt", " \n")
    found, output = job.run(["answer", "--model_name_or_path", f"{DEMO}/demo", "--question", "Who?", "--context", empty],
                            program="squad")
    job.check(found == 2 and f"--context: {empty} is empty" in output, output)
    refuses("leaves too little room for the context", max_length=8)
    found, output = job.run(["answer", "--model_name_or_path", f"{DEMO}/demo", "--question", "Who?"], program="squad")
    job.check(found == 2 and "an answer needs both" in output, output)
    print("ok: what is wrong is said")


def main():
    folder = job.workspace()
    check_ranks(folder)
    check_resume(folder)
    check_teacher(folder)
    check_evaluation_alone(folder)
    check_v2(folder)
    check_real_config(folder)
    check_float16(folder)
    check_refused(folder)


main()
