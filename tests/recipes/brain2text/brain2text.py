"""brain2text as its README has it: the demo trains to its figure; one rank and two have the same losses; a job that is killed is
resumed exactly; a student learns from a teacher; recordings come out of S3 as from a disk."""
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import job

DEMO = f"{job.SOURCE}/examples/brain2text/demo.yaml"
FIGURE, TOLERANCE = 0.04, 0.03  # of the README: the demo's phoneme error rate
folder = job.workspace()
data = f"{folder}/data"


def arguments(out, **options):
    given = {"dataset_dir": data, "output_dir": out, "device": "cpu", **options}
    return ["--config_file", DEMO, *[word for name, value in given.items() for word in (f"--{name}", str(value))]]


def train(out, ranks=2, **options):
    return job.must_run(arguments(out, **options), ranks=ranks, program="brain2text")


def refused(text, ranks=1, **options):
    code, output = job.run(arguments(f"{folder}/refused", **options), ranks=ranks, program="brain2text")
    job.check(code == 2 and text in output and output.count("error: ") == 1, f"exit code {code}, wanted {text!r}:\n{output}")


def predict(split, model, path, **options):
    words = [word for name, value in {"dataset_dir": data, "device": "cpu", **options}.items() for word in (f"--{name}", str(value))]
    output = job.must_run(["--predict", split, "--trained_model", model, "--predictions", path, *words], ranks=2, program="brain2text")
    with open(path, newline="", encoding="utf-8") as file:
        return output, list(csv.DictReader(file))


def without_times(records):
    return [{name: value for name, value in record.items() if name not in ("time", "tokens_per_second", "samples_per_second", "data_wait_seconds")}
            for record in records]


def all_records(out):
    with open(f"{out}/metrics.jsonl", encoding="utf-8") as file:
        return without_times([json.loads(line) for line in file])


def check_demo():
    began = time.monotonic()
    output = train(f"{folder}/demo")
    seconds = time.monotonic() - began
    last = job.records(f"{folder}/demo", "eval_phoneme_error_rate")[-1]
    rate = last["eval_phoneme_error_rate"]
    print(f"the demo took {seconds:.0f} s to an error rate of {rate:.4f}")
    job.check(rate <= FIGURE + TOLERANCE, f"the demo's phoneme error rate is {rate}, not {FIGURE}:\n{output}")
    days = [last[f"eval_phoneme_error_rate.demo.2024.01.0{day}"] for day in (1, 2, 3)]
    job.check(min(days) <= rate <= max(days), f"the days' error rates are {days}, of all {rate}")
    best = f"{folder}/demo/checkpoint/best_checkpoint"
    with open(f"{best}/metrics.json", encoding="utf-8") as file:
        kept = json.load(file)
    rates = [record["eval_phoneme_error_rate"] for record in job.records(f"{folder}/demo", "eval_phoneme_error_rate")]
    job.check(kept["phoneme_error_rate"] == min(rates), f"the best of {rates} is not {kept}")

    # What the best model spells of the held-out trials is what its evaluation counted.
    output, rows = predict("val", best, f"{folder}/val.csv")
    edits, classes = sum(int(row["edits"]) for row in rows), sum(len(row["target"].split()) for row in rows)
    job.check(len(rows) == 120 and abs(edits / classes - kept["phoneme_error_rate"]) < 1e-6, f"{edits} of {classes}, not {kept}")
    job.check(f"phoneme_error_rate = {edits / classes:.4f}\n" in output, output)
    beam, _ = predict("val", best, f"{folder}/beam.csv", decoder="beam", beam_width=8)
    beam_rate = float(re.search(r"phoneme_error_rate = (\S+)", beam)[1])
    job.check(beam_rate <= FIGURE + TOLERANCE, f"beam search has an error rate of {beam_rate}")
    output, rows = predict("test", best, f"{folder}/test.csv")
    job.check(len(rows) == 36 and "edits" not in rows[0] and "error_rate" not in output, f"{rows[:2]}\n{output}")
    return best


# Ranks drop other units, so that only without dropout they have the same losses.
SHORT = {"num_training_batches": 12, "lr_warmup_steps": 0, "batches_per_val_step": 4, "batches_per_save": 4, "batches_per_train_log": 1,
         "rnn_dropout": 0, "input_layer_dropout": 0}


def check_ranks():
    train(f"{folder}/one", ranks=1, **SHORT)
    job.check_reports(f"{folder}/two", train(f"{folder}/two", ranks=2, print_metrics="true", **SHORT))
    train(f"{folder}/sharded", ranks=2, zero_stage=1, **SHORT)
    one = all_records(f"{folder}/one")
    for other in (all_records(f"{folder}/two"), all_records(f"{folder}/sharded")):
        job.check(len(one) == len(other) > 12, f"{len(one)} and {len(other)} records")
        for first, second in zip(one, other):
            job.check(first.keys() == second.keys(), f"{first}\n{second}")
            for name, value in first.items():
                job.check(abs(second[name] - value) <= 1e-3 * abs(value) + 1e-5, f"{name} is {value} with one rank, {second[name]} with two")


def check_resume():
    options = {**SHORT, "num_training_batches": 40, "rnn_dropout": 0.2}
    train(f"{folder}/undisturbed", **options)
    out = f"{folder}/killed"
    job.kill_after(f"{out}/checkpoint-8", arguments(out, **options), program="brain2text")
    train(out, resume_from_checkpoint="latest", **options)
    job.check(all_records(out) == all_records(f"{folder}/undisturbed"), "the resumed job has other records than the undisturbed one")
    for name in ("model.safetensors", "checkpoint/best_checkpoint/model.safetensors", "checkpoint/best_checkpoint/metrics.json"):
        with open(f"{out}/{name}", "rb") as first, open(f"{folder}/undisturbed/{name}", "rb") as second:
            job.check(first.read() == second.read(), f"{name} of the resumed job is another one")


def check_distillation(teacher):
    out = f"{folder}/student"
    options = {**SHORT, "num_training_batches": 150, "batches_per_val_step": 75, "batches_per_save": 0}
    train(out, teacher_model=teacher, n_units=24, n_layers=1, temperature=1.5, alpha=0.8, **options)
    records = job.records(out, "kl")
    first, last = (sum(record["kl"] for record in part) / 5 for part in (records[:5], records[-5:]))
    job.check(last < first / 2, f"the divergence from the teacher went from {first} to {last}")
    for record in records:
        job.check(abs(0.2 * record["ctc"] + 0.8 * record["kl"] - record["loss"]) < 1e-3 * record["loss"], record)
    refused("teacher_model: patch_size is 6, and the student's 8", teacher_model=teacher, patch_size=8)


def check_modes():
    output = train(f"{folder}/dry", ranks=1, dry_run="true")
    job.check(not os.path.exists(f"{folder}/dry"), f"--dry_run left files:\n{output}")
    refused("/none/data_train.hdf5: there is no such file", sessions="demo.2024.01.01,none")
    refused("days_per_batch is 4, and there are 3 sessions", days_per_batch=4)
    refused("batch_size is 1, and a step has 2 micro-batches", ranks=2, batch_size=1)
    refused("smooth_kernel_size is 5, and a kernel of smooth_kernel_std 1 needs 10", smooth_kernel_size=5)
    refused("input_features is float32", ranks=2, n_input_features=16)


def check_s3():
    with open(f"{os.path.dirname(job.BIN)}/s3_server.txt", encoding="utf-8") as file:
        about = file.read()
    if about.startswith("skipped"):
        return print(about)
    server = next(line.split()[1] for line in about.splitlines() if line.startswith("server "))
    os.environ.update({"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "DISTILLTEST", "AWS_SECRET_ACCESS_KEY": "distill-test-secret",
                       "AWS_REGION": "us-east-1"})
    bucket = f"brain2text-{os.getpid()}"
    subprocess.run(["curl", "-fsS", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "DISTILLTEST:distill-test-secret",
                    "-H", f"x-amz-content-sha256: {hashlib.sha256().hexdigest()}", f"{server}/{bucket}"], check=True)
    remote = f"s3://{bucket}/hdf5_data_diphone_encoded"
    job.must_run(["copy", data, remote], program="distill_data")
    train(f"{folder}/remote", dataset_dir=remote, **SHORT)
    job.check(all_records(f"{folder}/remote") == all_records(f"{folder}/two"), "recordings out of S3 give other losses than those of the disk")
    output = train(f"{folder}/compared", ranks=1, dataset_dir=remote, compare_dataset_dir=data, compare_batches=12, **SHORT)
    job.check(re.search(r"^slow-down: -?[\d.]+ % \(the same losses\)$", output, re.M), output)
    refused("t15.none/data_train.hdf5: there is no such file", dataset_dir=remote, sessions="t15.none", days_per_batch=1)


subprocess.run([f"{job.BIN}/brain2text_recordings", data], check=True, stdout=subprocess.DEVNULL)
best_model = check_demo()
check_ranks()
check_resume()
check_distillation(best_model)
check_modes()
check_s3()
print("ok: brain2text trains, resumes, distils and reads out of S3")
