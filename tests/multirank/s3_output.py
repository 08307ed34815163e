"""Jobs whose models, checkpoints, metrics and trained model are in S3, against a real server: they are killed and resumed to
the bits of an undisturbed local job, ride out a storm of 503, and are refused before the first step where they may not
write."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

with open(os.path.join(os.path.dirname(job.BIN), "s3_server.txt"), encoding="utf-8") as about:
    ABOUT = dict(line.split(" ", 1) for line in about.read().splitlines())
if "server" not in ABOUT:
    print(ABOUT)
    sys.exit(77)
SERVER, PROXY = ABOUT["server"], ABOUT["proxy"]
BUCKET = f"s3-output-{os.getpid()}"
ACCOUNT = {"AWS_ACCESS_KEY_ID": "DISTILLTEST", "AWS_SECRET_ACCESS_KEY": "distill-test-secret", "AWS_REGION": "us-east-1"}
DIRECT, DISTURBED = {**ACCOUNT, "AWS_ENDPOINT_URL": SERVER}, {**ACCOUNT, "AWS_ENDPOINT_URL": PROXY}


def ask(method, path, body=b"", *more):
    """A signed request: (status, body)."""
    done = subprocess.run(["curl", "-sS", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "DISTILLTEST:distill-test-secret",
                           "-H", f"x-amz-content-sha256: {hashlib.sha256(body).hexdigest()}", "--data-binary", "@-", "-w", "\n%{http_code}",
                           *more, f"{SERVER}/{path}"], input=body, stdout=subprocess.PIPE, check=True)
    text, _, status = done.stdout.rpartition(b"\n")
    return int(status), text


def read(name):
    status, text = ask("GET", f"{BUCKET}/{name}")
    job.check(status == 200, f"{name}: {status} {text[:300]}")
    return text


def is_there(name):
    return ask("GET", f"{BUCKET}/{name}")[0] == 200


def upload(folder, to):
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            status, text = ask("PUT", f"{BUCKET}/{to}/{name}", file.read())
        job.check(status == 200, f"{to}/{name}: {status} {text}")


def disturb(*faults):
    subprocess.run(["curl", "-fsS", "-d", json.dumps([dict(zip(("match", "do", "times"), fault)) for fault in faults]),
                    f"{PROXY}/-/faults"], check=True)


def arguments(folder, models, out, **options):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{models}/teacher", student_model=f"{models}/student",
        output_dir=out, per_device_train_batch_size=2, gradient_accumulation_steps=2, num_train_epochs=3, save_steps=5,
        save_total_limit=2, report_to="jsonl,tensorboard", **options)]


def compare(whole, out):
    """Of every step, and the trained model."""
    expected = job.metrics(whole)
    found = {line["step"]: line for line in map(json.loads, read(f"{out}/metrics.jsonl").splitlines()) if "loss" in line}
    job.check(sorted(expected) == sorted(found), f"{out}: steps {sorted(found)} instead of {sorted(expected)}")
    for step, line in expected.items():
        for key in ("loss", "kl", "ce", "grad_norm", "learning_rate", "epoch"):
            job.check(json.dumps(line[key]) == json.dumps(found[step][key]),
                      f"{out}, step {step}: {key} {found[step][key]} instead of {line[key]}")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        with open(f"{whole}/{name}", "rb") as file:
            job.check(file.read() == read(f"{out}/{name}"), f"{out}/{name} differs")


def kill_after(folder, out, name):
    process = subprocess.Popen(job.command("distillrun", 2, f"{job.BIN}/distill_llm",
                                           *arguments(folder, f"s3://{BUCKET}/models", f"s3://{BUCKET}/{out}")),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               env=job.environment(**DIRECT))
    deadline = time.monotonic() + 120
    while not is_there(f"{out}/{name}"):
        if process.poll() is not None:
            sys.exit(f"FAILED: the job ended before it was killed: {process.stdout.read()}")
        job.check(time.monotonic() < deadline, f"no {name} within 120 s")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def check_killed(folder, whole):
    out = "killed"
    kill_after(folder, out, "checkpoint-10/manifest.pb")
    output = job.must_run(arguments(folder, f"s3://{BUCKET}/models", f"s3://{BUCKET}/{out}", resume_from_checkpoint="latest"), ranks=2,
                          **DIRECT)
    job.check("resuming from s3://" in output, f"the job does not say that it resumed:\n{output}")
    compare(whole, out)
    listed = ask("GET", f"{BUCKET}?list-type=2&prefix={out}%2F")[1].decode()
    last = max(job.metrics(whole))
    for step in range(5, last, 5):
        job.check((f"{out}/checkpoint-{step}/" in listed) == (step > last - 5), f"save_total_limit: 2, but there is\n{listed}")
    for part in ("tensorboard/events.out.tfevents.", "resolved_config.yaml"):
        job.check(f"{out}/{part}" in listed, f"no {part} in\n{listed}")
    for part in (".draft", ".tmp", ".lock"):
        job.check(part not in listed, f"{part} is left in\n{listed}")
    answer = job.must_run(["--generate", f"s3://{BUCKET}/{out}", "--prompt", "red", "--max_new_tokens", "4", "--device", "cpu"], **DIRECT)
    local = job.must_run(["--generate", whole, "--prompt", "red", "--max_new_tokens", "4", "--device", "cpu"])
    job.check(answer.splitlines()[-1] == local.splitlines()[-1], f"{answer}\ninstead of\n{local}")
    print("ok: killed with SIGKILL and resumed in S3, to the bits of the local job")


def check_evaluate(folder):
    code, output = job.run(["--teacher_model", f"s3://{BUCKET}/models/teacher", "--dataset_name", f"{folder}/chat.jsonl", "--json",
                            f"s3://{BUCKET}/figures.json", "--store_attempts", "3", f"student=s3://{BUCKET}/killed"],
                           program="evaluate_llm", **DIRECT)
    job.check(code == 0, output)
    job.check(json.loads(read("figures.json"))["student"]["loss"] > 0, "no figures")
    print("ok: evaluate_llm reads models from S3 and writes its figures there")


def check_storm(folder, whole):
    out = "storm"
    disturb((f"PUT /{BUCKET}/{out}/checkpoint-", "status 503 SlowDown", 6), (f"GET /{BUCKET}/models", "status 500 InternalError", 3),
            (f"PUT /{BUCKET}/{out}/metrics.jsonl", "status 503 SlowDown", 2))
    job.must_run(arguments(folder, f"s3://{BUCKET}/models", f"s3://{BUCKET}/{out}"), ranks=2, **DISTURBED)
    compare(whole, out)
    print("ok: a storm of 503 changes nothing")


def check_outage(folder, whole):
    """No checkpoint but the first one can be written: training goes on, and what comes after is there."""
    out = "outage"
    disturb(*((f"PUT /{BUCKET}/{out}/checkpoint-{step}/", "status 503 SlowDown", 1000) for step in (10, 15, 20)))
    output = job.must_run(arguments(folder, f"s3://{BUCKET}/models", f"s3://{BUCKET}/{out}", store_attempts=2, save_failure="warn"),
                          ranks=2, **DISTURBED)
    job.check("saving the checkpoint of step 10" in output and "training continues (save_failure: warn)" in output, output)
    compare(whole, out)
    print("ok: saves that fail cost their checkpoints alone")


def check_refused(folder):
    out = "refused"
    disturb((f"PUT /{BUCKET}/{out}", "status 403 AccessDenied", 1000))
    code, output = job.run(arguments(folder, f"s3://{BUCKET}/models", f"s3://{BUCKET}/{out}"), ranks=2, **DISTURBED)
    job.check(code != 0 and "403 AccessDenied" in output, output)
    for part in (f"s3://{BUCKET}/{out}", "s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload", f"arn:aws:s3:::{BUCKET}/*"):
        job.check(part in output, f"no {part} in\n{output}")
    job.check("step 1/" not in output and "chat template: " not in output, f"it read data before:\n{output}")
    code, output = job.run(arguments(folder, f"s3://{BUCKET}/none", f"s3://{BUCKET}/{out}"), **DIRECT)
    job.check(code == 2 and f"teacher_model: no folder s3://{BUCKET}/none/teacher" in output, output)
    code, output = job.run(arguments(folder, f"s3://{BUCKET}/models", "hf://org/name"), **DIRECT)
    job.check(code == 2 and "hf://org/name" in output and "chat template: " not in output, output)
    print("ok: what may not be written, or is not there, is said before data are read")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=83)
    job.check(ask("PUT", BUCKET)[0] == 200, "no bucket")
    for name in ("teacher", "student"):
        upload(f"{folder}/{name}", f"models/{name}")
    whole = f"{folder}/whole"
    job.must_run(arguments(folder, folder, whole), ranks=2)
    check_killed(folder, whole)
    check_evaluate(folder)
    check_storm(folder, whole)
    check_outage(folder, whole)
    check_refused(folder)


main()
