"""distill_data on HDF5 files that h5py wrote: count, show, stats, verify and copy, from a disk and out of S3."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["DISTILL_BUILD_DIR"]
GOLDEN = f"{BUILD}/golden/hdf5"
TRIALS = f"{GOLDEN}/trials_v110_all.hdf5"
ENVIRONMENT = dict(os.environ)


def run(*words, code=0):
    done = subprocess.run([f"{BUILD}/bin/distill_data", *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=100)
    assert done.returncode == code, f"{' '.join(words)}: code {done.returncode}\n{done.stdout}"
    return done.stdout


def has(text, *parts):
    for part in parts:
        assert part in text, f"no {part!r} in:\n{text}"


def check(path):
    """What is said of TRIALS, wherever it lies."""
    with open(TRIALS.replace(".hdf5", ".json"), encoding="utf-8") as file:
        known = json.load(file)
    first = next(item for item in known["datasets"] if item["name"] == "/trial_0000/input_features")
    frames = [item["shape"][0] for item in known["datasets"] if item["name"].endswith("/input_features")]
    has(run("count", path), f"{path}: 12 trials (input_features, seq_class_ids, transcription)", "12 trials in 1 files")
    shown = run("show", path, "--rows", "1")
    has(shown, f"{path}:/trial_0000\n", f"input_features float32 {first['shape']} in chunks of {first['chunk']}, shuffle, gzip, fletcher32",
        "seq_class_ids int32 [50]\n", f"n_time_steps = {frames[0]}\n", "session = t15.2023.08.11\n", "sentence_label = Sentence 0, with ü.\n",
        "threshold = -4.5\n")
    assert shown.count("trial_") == 1, shown
    assert run("show", path).count(":/trial_") == 5
    has(run("stats", path, "--per_device_train_batch_size", "4"), "input_features of 12 trials in 1 files",
        f"12 samples, {sum(frames)} frames; mean {sum(frames) / 12:.1f}", f"longest {max(frames)}\n", "padding of shuffled batches of 4 rows: ",
        "; with group_by_length: ")
    has(run("stats", path, "--dataset", "seq_class_ids"), "12 samples, 600 frames")
    has(run("verify", path), f"{path}: all chunks of 36 data sets can be read\n")


check(TRIALS)
has(run("verify", f"{GOLDEN}/layouts_v108.hdf5"), "data sets can be read\n")
has(run("verify", f"{GOLDEN}/strings_earliest.hdf5"), "data sets can be read\n")
has(run("verify", f"{GOLDEN}/types_earliest.hdf5"), "data sets can be read\n")
has(run("verify", f"{GOLDEN}/refused.hdf5"), "not read: ", "its elements are of type compound", "is compressed by lzf",
    "all chunks of 6 data sets can be read; ", " hold kinds that are not read")
has(run("sample", TRIALS, "out.jsonl", code=2), "HDF5")
has(run("tokenize", TRIALS, "out", "--tokenizer", "none", code=2), "error: ")

with tempfile.TemporaryDirectory() as folder:
    os.makedirs(f"{folder}/all")
    for name in ("trials_v110_all", "trials_earliest_plain"):
        shutil.copy(f"{GOLDEN}/{name}.hdf5", f"{folder}/all")
    has(run("count", f"{folder}/all"), "24 trials in 2 files")
    has(run("count", f"{folder}/all", "--split", "trials_v110"), "12 trials in 1 files")
    run("copy", "--verify", TRIALS, f"{folder}/copy.h5")
    check(f"{folder}/copy.h5")

    # A split of which there is nothing, and rows beside recordings.
    for command in ("count", "show", "stats", "verify"):
        has(run(command, f"{folder}/all", "--split", "nothing", code=2), f"error: {folder}/all: no file matches nothing*.hdf5 or .h5; ",
            "trials_earliest_plain.hdf5, trials_v110_all.hdf5")
    with open(f"{folder}/all/questions.jsonl", "w", encoding="utf-8") as file:
        file.write('{"question": "How many?", "answer": "Two."}\n')
    for command in ("count", "show", "stats", "verify"):
        has(run(command, f"{folder}/all", code=2), "holds HDF5 (trials_earliest_plain.hdf5, ...) and rows (questions.jsonl, ...)")
    has(run("count", f"{folder}/all", "--split", "quest"), "1 rows in 1 files")
    has(run("count", f"{folder}/all", "--split", "trials"), "24 trials in 2 files")

    with open(f"{folder}/fake.hdf5", "w", encoding="utf-8") as file:
        file.write("no recordings\n")
    has(run("count", f"{folder}/fake.hdf5", code=2), "fake.hdf5: the file: its bytes are not HDF5: ")
    has(run("stats", f"{GOLDEN}/refused.hdf5", "--dataset", "x", code=2), " is itself a data set, where a group that holds x was expected")

    # A byte of a chunk, found by its checksum, and named; the other data sets are read all the same.
    with open(TRIALS, "rb") as file:
        good = file.read()
    damaged = 0
    for at in range(len(good) // 3, len(good), len(good) // 40):
        bad = bytearray(good)
        bad[at] ^= 16
        with open(f"{folder}/bad.hdf5", "wb") as file:
            file.write(bad)
        done = subprocess.run([f"{BUILD}/bin/distill_data", "verify", f"{folder}/bad.hdf5"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=100)
        assert done.returncode in (0, 2), done
        damaged += "damaged: " in done.stdout
        if "damaged: " in done.stdout:
            has(done.stdout, f"damaged: {folder}/bad.hdf5: /trial_00", "data sets are damaged; fetch or write their files again")
    assert damaged > 5, damaged
    with open(f"{folder}/cut.hdf5", "wb") as file:
        file.write(good[: len(good) // 2])
    has(run("verify", f"{folder}/cut.hdf5", code=2), "error: ", "cut.hdf5")
    has(run("count", f"{folder}/none.hdf5", code=2), "none.hdf5: no such file")

with open(f"{BUILD}/s3_server.txt", encoding="utf-8") as file:
    about = file.read()
if about.startswith("skipped"):
    print(f"ok, but for S3: {about}")
    sys.exit(0)
server = next(line.split()[1] for line in about.splitlines() if line.startswith("server "))
ENVIRONMENT |= {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "DISTILLTEST", "AWS_SECRET_ACCESS_KEY": "distill-test-secret", "AWS_REGION": "us-east-1"}
BUCKET = f"recordings-program-{os.getpid()}"
subprocess.run(["curl", "-fsS", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "DISTILLTEST:distill-test-secret",
                "-H", f"x-amz-content-sha256: {hashlib.sha256().hexdigest()}", f"{server}/{BUCKET}"], check=True)
run("copy", "--verify", TRIALS, f"s3://{BUCKET}/days/trials.hdf5")
check(f"s3://{BUCKET}/days/trials.hdf5")
has(run("count", f"s3://{BUCKET}/days"), "12 trials in 1 files")
print("ok: distill_data reads HDF5 from a disk and out of S3")
