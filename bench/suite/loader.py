"""Data: how fast rows, tokens and trials come, from a disk and from an S3 server on loopback, and what a shuffle costs.

Cases: rows/FORMAT (parsed, one thread), rows/FORMAT/s3 (beside the same file on the disk), tokens/first and tokens/second (a chat data
set from its file to what training reads), trials/s3 (HDF5 trials at random), job/FORMAT/s3
(a whole training job from start to end, beside the same one from the disk, and the longest that a step waited once the queue was filled:
a language model on rows that are tokenized first, a GRU with CTC on trials that are read while it trains), hub (a large file of the
Hugging Face hub, beside curl), shuffle/1e9. The S3 server
needs scripts/setup --s3 and HDF5 files h5py, which scripts/setup --oracles installs; a case whose parts are missing is left out, and said to be.
"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from suite import tokenizer
from suite.hub_download import hub_download
from suite.programs import BIN, ONE_CORE, PEERS, REPO, build, dependencies, own_results, run, say
from suite.rounds import in_rounds, line, lines

CONVERSATIONS, QUICK_CONVERSATIONS = 100_000, 5_000
TRIALS, QUICK_TRIALS = 200, 24
DRAWN, QUICK_DRAWN = 30, 20
JOB_CONVERSATIONS = 5_000
JOB_STEPS, QUICK_JOB_STEPS = {"jsonl": 60, "parquet": 60, "hdf5": 96}, {"jsonl": 8, "parquet": 8, "hdf5": 16}
FILLED = 5  # steps until the queue of batches is full
KEY, SECRET, REGION = "DISTILLTEST", "distill-test-secret", "us-east-1"


def conversations(texts, path, count):
    """Questions and answers of 950 bytes each, out of the texts of the tokenizer benchmark, as often as it takes."""
    pieces = []
    for name in ("prose", "code"):
        with open(f"{texts}/{name}.zero", encoding="utf-8") as file:
            pieces += [text[begin:begin + 950] for text in file.read().split("\0") for begin in (0, 950) if len(text) > begin + 900]
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            question, answer = pieces[2 * number % len(pieces)], pieces[(2 * number + 1) % len(pieces)]
            file.write(json.dumps({"messages": [{"role": "user", "content": f"{number} {question}"},
                                                {"role": "assistant", "content": answer}]}) + "\n")


def files(python, options):
    """The folder of data, made where it is missing; and that of the tokenizers."""
    count = QUICK_CONVERSATIONS if options.quick else CONVERSATIONS
    texts = tokenizer.files(python, tokenizer.QUICK_SIZE if options.quick else tokenizer.SIZE)
    folder = f"{REPO}/build/bench/loader-{count}"
    if not os.path.exists(f"{folder}/complete"):
        say(f"making data in {folder}")
        os.makedirs(folder, exist_ok=True)
        conversations(texts, f"{folder}/chats.jsonl", count)
        subprocess.run([f"{python}/python", f"{PEERS}/read_data.py", "parquet", f"{folder}/chats.jsonl", f"{folder}/chats.parquet"], check=True)
        oracles = f"{dependencies('--oracles')}/oracles/bin/python"
        subprocess.run([oracles, f"{PEERS}/read_data.py", "make_trials", f"{folder}/trials.hdf5",
                        str(QUICK_TRIALS if options.quick else TRIALS)], check=True)
        with open(f"{folder}/chats.jsonl", encoding="utf-8") as source, open(f"{folder}/job.jsonl", "w", encoding="utf-8") as target:
            target.writelines(itertools.islice(source, JOB_CONVERSATIONS))
        subprocess.run([f"{python}/python", f"{PEERS}/read_data.py", "parquet", f"{folder}/job.jsonl", f"{folder}/job.parquet"], check=True)
        with open(f"{folder}/complete", "w", encoding="utf-8"):
            pass
    return folder, f"{texts}/qwen3"


class S3:
    """A server on loopback with the files; None where there is no server."""

    def __init__(self, folder):
        self.about = os.path.join(tempfile.mkdtemp(), "s3_server.txt")
        subprocess.run([sys.executable, f"{REPO}/tests/support/s3_fixture.py", "up", self.about], check=True)
        with open(self.about, encoding="utf-8") as file:
            said = file.read()
        self.url = None if said.startswith("skipped") else next(text.split()[1] for text in said.splitlines() if text.startswith("server "))
        if self.url is None:
            return say(said.strip())
        self.environment = {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
        subprocess.run(["curl", "-fsS", "-X", "PUT", "--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", f"{KEY}:{SECRET}", "-H",
                        "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", f"{self.url}/bench"], check=True)
        run([f"{BIN}/distill_data", "copy", folder, "s3://bench/data"], **self.environment)

    def end(self):
        subprocess.run([sys.executable, f"{REPO}/tests/support/s3_fixture.py", "down", self.about], check=True)
        shutil.rmtree(os.path.dirname(self.about), ignore_errors=True)


def one(command, **environment):
    result, = own_results(run(command, **environment))
    return result


def rows(folder, python, options, s3):
    def read(place, **environment):
        def contestant():
            return {f"rows/{kind}": one([f"{BIN}/bench_data", "rows", f"{place}/chats.{kind}"], **environment) for kind in ("jsonl", "parquet")}
        return contestant

    def of_datasets():
        return {f"rows/{kind}": one([f"{python}/python", f"{PEERS}/read_data.py", "rows", f"{folder}/chats.{kind}"]) for kind in ("jsonl", "parquet")}

    found = in_rounds({"ours": read(folder), **({"datasets": of_datasets} if options.peers else {})}, options.rounds)
    for case in found["ours"]:
        yield from lines("loader", case, "MB/s", found, "mb_s")
    if s3.url is None:
        return
    found = in_rounds({"ours": read("s3://bench/data", **s3.environment), "the disk": read(folder)}, options.rounds)
    for case, figures in found["ours"].items():
        of_disk = found["the disk"][case]
        if set(figures["checksum"]) != set(of_disk["checksum"]):
            sys.exit(f"error: {case}: other rows from S3 than from the disk")
        yield line("loader", f"{case}/s3", "s", figures["seconds"], peer_name="the disk", peer=of_disk["seconds"])


def tokens(folder, vocabulary, python, options):
    def ours():
        with tempfile.TemporaryDirectory() as cache:
            command = [f"{BIN}/bench_data", "tokens", f"{folder}/chats.jsonl", "--tokenizer", vocabulary, "--cache", cache]
            first, second = one(command), one(command)
        if first["checksum"] != second["checksum"]:
            sys.exit("error: the tokens that were kept are not those that were made")
        return {"tokens/first": first, "tokens/second": second}

    def datasets_map():
        with tempfile.TemporaryDirectory() as cache:
            command = [f"{python}/python", f"{PEERS}/read_data.py", "map", f"{folder}/chats.jsonl", vocabulary, cache]
            return {"tokens/first": one(command), "tokens/second": one(command)}

    found = in_rounds({"ours": ours, **({"datasets.map": datasets_map} if options.peers else {})}, options.rounds)
    for case in found["ours"]:
        yield from lines("loader", case, "s", found, "seconds")
    for case, figures in found["ours"].items():
        yield line("loader", f"{case}/memory of a rank", "MB", figures["private_mb"])


def trials(folder, options, s3):
    if s3.url is None:
        return
    count = QUICK_DRAWN if options.quick else DRAWN
    command = [f"{BIN}/bench_data", "trials", "s3://bench/data/trials.hdf5", "--count", str(count), "--threads", "4"]
    drawn = one(command, **s3.environment)["drawn"]
    numbers = [str(number) for number in drawn]
    url = f"{s3.url}/bench/data/trials.hdf5"
    contestants = {"ours": lambda: {"trials/s3": one(command, **s3.environment)}}
    if options.peers:
        contestants["h5py over ranges"] = lambda: {"trials/s3": one(
            [f"{dependencies('--oracles')}/oracles/bin/python", f"{PEERS}/read_data.py", "trials", url, KEY, SECRET, REGION, *numbers])}
        if os.path.exists(f"{BIN}/peer_ros3_trials"):
            contestants["ros3"] = lambda: {"trials/s3": one([f"{BIN}/peer_ros3_trials", url, KEY, SECRET, REGION, *numbers])}
        else:
            say("this HDF5 has no ros3 driver, which is left out")
    found = in_rounds(contestants, options.rounds)
    sums = {name: float(of_peer["trials/s3"]["checksum"][0]) for name, of_peer in found.items()}
    if max(sums.values()) - min(sums.values()) > 1e-3 * abs(sums["ours"]):
        sys.exit(f"error: not all read the same trials: {sums}")
    yield from lines("loader", "trials/s3", "trials/s", found, "trials_s")


def job(kind, place, steps, **environment):
    """From start to end: its seconds, its mean loss, and the longest that a step waited for data once the queue was filled."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "hdf5":
            command = [f"{BIN}/bench_trial_job", f"{place}/trials.hdf5", f"{folder}/out", "--steps", str(steps), "--hidden", "128"]
        else:
            command = [f"{BIN}/distill_llm", "--teacher_model", "examples/llm/teacher", "--student_model", "examples/llm/student",
                       "--dataset_name", f"{place}/job.{kind}", "--output_dir", f"{folder}/out", "--cache_dir", f"{folder}/tokens",
                       "--max_length", "1024", "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1",
                       "--max_steps", str(steps), "--logging_steps", "1", "--save_steps", "0", "--report_to", "jsonl",
                       "--disable_tqdm", "true", "--bf16", "false"]
        began = time.monotonic()
        ended = subprocess.run(command, cwd=REPO, env={**os.environ, **ONE_CORE, **environment}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        seconds = time.monotonic() - began
        if ended.returncode != 0:
            sys.exit(f"error: {' '.join(command)}\n{ended.stdout[-2000:]}")
        with open(f"{folder}/out/metrics.jsonl", encoding="utf-8") as file:
            records = [json.loads(text) for text in file]
    logged = [record for record in records if "data_wait_seconds" in record and "loss" in record]
    return {"seconds": seconds, "loss": sum(record["loss"] for record in logged),
            "waited": max(record["data_wait_seconds"] for record in logged[FILLED:])}


def jobs(folder, options, s3):
    """One core trains; the S3 server, and the threads that read, have the others."""
    if s3.url is None:
        return
    steps = QUICK_JOB_STEPS if options.quick else JOB_STEPS

    def of(place, **environment):
        return lambda: {f"job/{kind}": job(kind, place, steps[kind], **environment) for kind in steps}

    found = in_rounds({"ours": of("s3://bench/data", **s3.environment), "the disk": of(folder)}, options.rounds)
    for case, figures in found["ours"].items():
        of_disk = found["the disk"][case]
        if set(figures["loss"]) != set(of_disk["loss"]):
            sys.exit(f"error: {case}: other losses from S3 than from the disk")
        yield line("loader", f"{case}/s3", "s", figures["seconds"], peer_name="the disk", peer=of_disk["seconds"])
        yield line("loader", f"{case}/s3/longest wait", "ms", [1000 * waited for waited in figures["waited"]])
        yield line("loader", f"{case}/longest wait", "ms", [1000 * waited for waited in of_disk["waited"]])


def shuffle(options):
    taken = [one([f"{BIN}/bench_data", "shuffle", "--samples", "1000000000"]) for _ in range(options.rounds)]
    yield line("loader", "shuffle/1e9", "s", [result["seconds"] for result in taken])
    yield line("loader", "shuffle/1e9/memory", "MB", [result["private_mb"] for result in taken])


def bench(options):
    programs = ["bench_data", "bench_trial_job", "distill_data_program", "distill_llm"]
    python = build(*programs, peers=True)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "peer_ros3_trials"], cwd=REPO, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    folder, vocabulary = files(python, options)
    s3 = S3(folder)
    try:
        yield from rows(folder, python, options, s3)
        yield from tokens(folder, vocabulary, python, options)
        yield from trials(folder, options, s3)
        yield from jobs(folder, options, s3)
        yield from hub_download(options)
        yield from shuffle(options)
    finally:
        s3.end()
