"""distill_data and distill_llm on s3://: what a user does with data in a bucket, against a real server."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

BUILD = os.environ["DISTILL_BUILD_DIR"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(f"{BUILD}/s3_server.txt", encoding="utf-8") as file:
    about = file.read()
if about.startswith("skipped"):
    print(about)
    sys.exit(77)
server = next(line.split()[1] for line in about.splitlines() if line.startswith("server "))
ENVIRONMENT = dict(os.environ, AWS_ENDPOINT_URL=server, AWS_ACCESS_KEY_ID="DISTILLTEST", AWS_SECRET_ACCESS_KEY="distill-test-secret",
                   AWS_REGION="us-east-1", OMP_NUM_THREADS="1")
BUCKET = f"data-program-{os.getpid()}"


def run(*words, code=0):
    done = subprocess.run(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=SOURCE, timeout=200)
    assert done.returncode == code, f"{' '.join(words)}: code {done.returncode}\n{done.stdout}"
    return done.stdout


def has(text, *parts):
    for part in parts:
        assert part in text, f"no {part!r} in:\n{text}"


subprocess.run(["curl", "-fsS", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "DISTILLTEST:distill-test-secret",
                "-H", f"x-amz-content-sha256: {hashlib.sha256().hexdigest()}", f"{server}/{BUCKET}"], check=True)
data = f"{BUILD}/bin/distill_data"
with tempfile.TemporaryDirectory() as folder:
    run(sys.executable, "examples/llm/generate.py", "--out", f"{folder}/data")
    with open(f"{folder}/data/train.jsonl", encoding="utf-8") as file:
        rows = file.readlines()

    copied = run(data, "copy", "--verify", f"{folder}/data", f"s3://{BUCKET}/data")
    has(copied, f"train.jsonl -> s3://{BUCKET}/data/train.jsonl: ", "compared")
    run(data, "copy", f"s3://{BUCKET}/data", f"{folder}/back")
    with open(f"{folder}/back/train.jsonl", encoding="utf-8") as file:
        assert file.readlines() == rows
    has(run(data, "count", f"s3://{BUCKET}/data", "--split", "train"), f"train.jsonl: {len(rows)} rows", f"{len(rows)} rows in 1 files")
    shown = run(data, "show", f"s3://{BUCKET}/data/train.jsonl", "--rows", "2").splitlines()
    assert [json.loads(line.split("\t")[1]) for line in shown] == [json.loads(row) for row in rows[:2]], shown
    has(run(data, "count", f"s3://{BUCKET}/none", code=2), f"error: s3://{BUCKET}/none: no such file")
    has(run(data, "count", f"s3://{BUCKET}-none/x", code=2), f"there is no bucket '{BUCKET}-none'")
    has(run(data, "count", code=2), "usage: distill_data count PATH")

    # Keys that no file can be called.
    for key in ("odd//x.jsonl", "up/../x.jsonl"):
        run(data, "copy", f"{folder}/data/held_out.jsonl", f"s3://{BUCKET}/{key}")
        has(run(data, "copy", f"s3://{BUCKET}/{key.split('/')[0]}", f"{folder}/odd", code=2), "holds objects whose keys have the part '")
        run(data, "copy", f"s3://{BUCKET}/{key}", f"{folder}/one.jsonl")
    assert not os.path.exists(f"{folder}/x.jsonl")

    # The same losses, wherever the data are, and whatever they are compressed with.
    subprocess.run(["gzip", "-k", f"{folder}/data/train.jsonl"], check=True)
    run(data, "copy", f"{folder}/data/train.jsonl.gz", f"s3://{BUCKET}/gz/")
    losses = []
    for name in (f"{folder}/data/train.jsonl", f"s3://{BUCKET}/data/train.jsonl", f"s3://{BUCKET}/gz/train.jsonl.gz"):
        out = f"{folder}/run{len(losses)}"
        said = run(f"{BUILD}/bin/distillrun", "-np", "2", f"{BUILD}/bin/distill_llm", "--config_file", "examples/llm/demo.yaml", "--output_dir", out,
            "--dataset_name", name, "--eval_dataset_name", f"s3://{BUCKET}/data/held_out.jsonl", "--max_steps", "6", "--eval_steps", "6",
            "--logging_steps", "1", "--save_steps", "6")
        has(said, "store_read_gib = ", "store_requests = ", "store_retries = 0\n", "store_stalls = 0\n")
        with open(f"{out}/metrics.jsonl", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        losses.append([record[key] for record in records for key in ("loss", "eval_loss") if key in record])
    assert len(losses[0]) >= 7, losses
    assert losses[0] == losses[1] == losses[2], losses

    refused = run(f"{BUILD}/bin/distill_llm", "--config_file", "examples/llm/demo.yaml", "--output_dir", f"{folder}/run9", "--dataset_name",
                  f"s3://{BUCKET}/none.jsonl", code=2)
    has(refused, f"dataset_name: s3://{BUCKET}/none.jsonl: no such file")
    ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] = "wrong"
    refused = run(f"{BUILD}/bin/distillrun", "-np", "2", f"{BUILD}/bin/distill_llm", "--config_file", "examples/llm/demo.yaml", "--output_dir",
                  f"{folder}/run9", "--dataset_name", f"s3://{BUCKET}/data/train.jsonl", code=2)
    has(refused, "dataset_name: ", "SignatureDoesNotMatch", "check AWS_SECRET_ACCESS_KEY")
print("distill_data and distill_llm read s3:// as they read a disk")
