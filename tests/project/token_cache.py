"""Tokens that are made once, as users meet them: distill_llm on several ranks through its cache, and distill_data's tokenize, show,
stats, sample and verify."""
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["DISTILL_BUILD_DIR"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEACHER = f"{SOURCE}/examples/llm/teacher"
DATA = f"{BUILD}/bin/distill_data"


def run(*words, code=0, **environment):
    done = subprocess.run(words, env=dict(os.environ, OMP_NUM_THREADS="1", **environment), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=SOURCE, timeout=200)
    assert done.returncode == code, f"{' '.join(words)}: code {done.returncode}\n{done.stdout}"
    return done.stdout


def has(text, *parts):
    for part in parts:
        assert part in text, f"no {part!r} in:\n{text}"


def has_not(text, part):
    assert part not in text, f"{part!r} in:\n{text}"


def losses_of(folder):
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [record[key] for record in records for key in ("loss", "eval_loss") if key in record]


def check_ranks(folder):
    """The same losses with and without a cache; one process makes the tokens, and no later start does."""
    losses = []

    def train(*words, dataset=f"{folder}/data/train.jsonl", ranks=3):
        out = f"{folder}/run{len(losses)}"
        said = run(f"{BUILD}/bin/distillrun", "-np", str(ranks), f"{BUILD}/bin/distill_llm", "--config_file", "examples/llm/demo.yaml",
                   "--output_dir", out, "--dataset_name", dataset, "--eval_dataset_name", f"{folder}/data/held_out.jsonl",
                   "--max_steps", "4", "--eval_steps", "4", "--logging_steps", "1", "--save_steps", "4", *words,
                   DISTILL_CACHE_DIR=f"{folder}/cache")
        losses.append(losses_of(out))
        return said

    has_not(train("--cache_dir", "none"), "are kept in")
    assert not os.path.exists(f"{folder}/cache")
    train()
    entries = sorted(name for name in os.listdir(f"{folder}/cache") if not name.endswith(".lock"))
    assert [name.rsplit("-", 1)[0] for name in entries] == ["held_out.jsonl", "train.jsonl"], entries
    made = os.stat(f"{folder}/cache/{entries[1]}/tokens.json")
    has(train(), f"its tokens were made before, in {folder}/cache/train.jsonl-")
    assert os.stat(f"{folder}/cache/{entries[1]}/tokens.json").st_mtime_ns == made.st_mtime_ns
    train("--overwrite_cache", "true")
    assert os.stat(f"{folder}/cache/{entries[1]}/tokens.json").st_mtime_ns > made.st_mtime_ns
    train("--cache_dir", f"{folder}/other")
    assert sorted(name for name in os.listdir(f"{folder}/other") if not name.endswith(".lock")) == entries
    run(DATA, "tokenize", f"{folder}/data/train.jsonl", f"{folder}/tokens", "--tokenizer", TEACHER, "--max_length", "64")
    train(dataset=f"{folder}/tokens")
    assert len(losses[0]) >= 5 and all(found == losses[0] for found in losses), losses


def check_killed(folder):
    """Who makes tokens is killed, and the next one goes on."""
    with open(f"{folder}/long.jsonl", "w", encoding="utf-8") as file:
        for number in range(60000):
            file.write(json.dumps({"question": f"What is the favourite colour of Hugo? {number} " * 30, "answer": f"white {number}"}) + "\n")
    words = (DATA, "tokenize", f"{folder}/long.jsonl", f"{folder}/long", "--tokenizer", TEACHER)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as making:
        while not os.path.exists(f"{folder}/long/00000.tokens"):
            assert making.poll() is None, "ended before a shard was there"
            time.sleep(0.01)
        making.send_signal(signal.SIGKILL)
    assert not os.path.exists(f"{folder}/long/tokens.json")
    for command in ("count", "verify"):
        has(run(DATA, command, f"{folder}/long", code=2), f"{folder}/long: holds tokens that are not complete: run the distill_data tokenize")
    rows = re.search(r"resumes behind (\d+) rows that were tokenized before", run(*words))
    assert rows and 0 < int(rows.group(1)) < 60000, rows
    has(run(DATA, "verify", f"{folder}/long"), "60000 samples of ", "all as they were written")
    run(DATA, "tokenize", f"{folder}/long.jsonl", f"{folder}/at_once", "--tokenizer", TEACHER)
    for name in os.listdir(f"{folder}/at_once"):
        with open(f"{folder}/at_once/{name}", "rb") as one, open(f"{folder}/long/{name}", "rb") as other:
            assert one.read() == other.read(), name
    with open(f"{folder}/long/00000.tokens", "r+b") as file:
        file.seek(os.path.getsize(f"{folder}/long/00000.tokens") // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))
    has(run(DATA, "verify", f"{folder}/long", code=2), "00000.tokens: is damaged (sample ")


def check_programs(folder):
    train = f"{folder}/data/train.jsonl"
    shown = run(DATA, "show", train, "--rows", "2", "--tokenizer", TEACHER)
    has(shown, "  loss | ", "<|im_start|>assistant\\n", "<|im_end|>", "samples 1")
    stats = run(DATA, "stats", train, "--tokenizer", TEACHER, "--max_length", "20", "--picture", f"{folder}/lengths.svg")
    has(stats, "cut to max_length 20", "padding of shuffled batches of 8 rows: ", "; with packing: ", "; with group_by_length: ", "longest 20", "####")
    with open(f"{folder}/lengths.svg", encoding="utf-8") as file:
        assert file.read().count("<rect") > 5
    has(run(DATA, "verify", train), "rows can be read")
    has(run(DATA, "stats", train, code=2), "--tokenizer is missing")
    has(run(DATA, "tokenize", f"{folder}/data/held_out.jsonl", f"{folder}/tokens", "--tokenizer", TEACHER, code=2), "holds tokens of other data")
    with open(f"{folder}/labels.jsonl", "w", encoding="utf-8") as file:
        for number in range(1000):
            file.write(json.dumps({"text": str(number), "label": "rare" if number % 50 == 0 else number % 3}) + "\n")
    drawn = []
    for seed in ("1", "1", "2"):
        run(DATA, "sample", f"{folder}/labels.jsonl", f"{folder}/drawn.jsonl", "--rows", "200", "--label", "label", "--seed", seed)
        with open(f"{folder}/drawn.jsonl", encoding="utf-8") as file:
            drawn.append([json.loads(line) for line in file])
    assert drawn[0] == drawn[1] != drawn[2]
    numbers = [int(row["text"]) for row in drawn[0]]
    assert numbers == sorted(set(numbers)) and len(numbers) == 200
    counts = collections.Counter(str(row["label"]) for row in drawn[0])
    assert counts == {"rare": 20, "0": 60, "1": 60, "2": 60}, counts
    has(run(DATA, "sample", f"{folder}/labels.jsonl", f"{folder}/x.jsonl", "--label", "none", code=2), "the field 'none' is missing")
    for name in ("x.parquet", "x.jsonl.gz", "x"):
        has(run(DATA, "sample", f"{folder}/labels.jsonl", f"{folder}/{name}", code=2), "give it a name that ends in .jsonl")
        assert not os.path.exists(f"{folder}/{name}")


def check_tokens_folder(folder):
    """What each command makes of a folder of tokens."""
    tokens = f"{folder}/tokens"
    has(run(DATA, "count", tokens), f"{tokens}: 3600 samples of ", " tokens in 1 shards")
    has(run(DATA, "verify", tokens), "3600 samples of ", "all as they were written")
    has(run(DATA, "show", tokens, "--tokenizer", TEACHER, "--max_length", "64", "--rows", "2"), "  loss | ", "samples 1")
    has(run(DATA, "show", tokens, code=2), "--tokenizer is missing")
    has(run(DATA, "stats", tokens, "--tokenizer", TEACHER, "--max_length", "64"), "padding of shuffled batches")
    has(run(DATA, "sample", tokens, f"{folder}/x.jsonl", code=2),
        "is a folder of tokens: count, show, stats, verify and copy are for it, and sample is for rows")


def check_calls():
    """A call that cannot work is refused before a hub is asked for anything; here none answers."""
    def refused(*words):
        return run(DATA, *words, code=2, HF_ENDPOINT="http://127.0.0.1:9")

    has(refused("foo", "org/chat"), "there is no command 'foo'; commands are count, show, stats, ")
    has(refused("--tokenizer", "org/model"), "a command is missing; commands are count, ")
    has(refused("count", "org/chat", "more"), "usage: distill_data count PATH")
    has(refused("tokenize", "org/chat", "tokens"), "--tokenizer is missing")
    has(refused("sample", "org/chat", "x.parquet"), "give it a name that ends in .jsonl")
    help_text = run(DATA, "--help")
    has(help_text, "Usage: distill_data COMMAND PATH... [OPTIONS]\n")
    for command in ("count PATH ", "show PATH ", "stats PATH ", "verify PATH ", "sample PATH FILE.jsonl ", "tokenize PATH FOLDER ", "copy FROM TO ", "fetch NAME "):
        has(help_text, f"\n  {command}")
    has(run(f"{BUILD}/bin/evaluate_llm", "--help"), "Usage: evaluate_llm NAME=FOLDER... [OPTIONS]\n")


def check_sources(folder):
    """Several data sets with weights, and a part of them held out."""
    with open(f"{folder}/mix.yaml", "w", encoding="utf-8") as file:
        file.write(f"dataset_name:\n  - {folder}/data/train.jsonl\n  - {folder}/data/held_out.jsonl\ndataset_weights: [3, 1]\n"
                   f"student_model: examples/llm/student\nteacher_model: examples/llm/teacher\nmax_length: 64\n"
                   f"validation_split: 0.1\nlogging_steps: 1\n")

    def train(out, *words, code=0, ranks=1):
        return run(f"{BUILD}/bin/distillrun", "-np", str(ranks), f"{BUILD}/bin/distill_llm", "--config_file", f"{folder}/mix.yaml",
                   "--output_dir", f"{folder}/{out}", *words, code=code, DISTILL_CACHE_DIR=f"{folder}/cache")

    told = train("mix", "--max_steps", "6", "--eval_steps", "3", "--save_steps", "3")
    has(told, "rows 3600, used 3600", "rows 600, used 600", "samples are held out")
    losses = losses_of(f"{folder}/mix")
    assert len(losses) >= 8, losses
    train("again", "--max_steps", "6", "--eval_steps", "3", "--save_steps", "3")
    assert losses_of(f"{folder}/again") == losses
    train("cut", "--max_steps", "6", "--eval_steps", "3", "--save_steps", "3", "--stopping_strategy", "all_exhausted")
    assert losses_of(f"{folder}/cut") != losses
    has(train("mix", "--max_steps", "9", "--eval_steps", "3", "--save_steps", "3", "--dataset_weights", "2, 1", "--resume_from_checkpoint",
              "latest", code=2), "other weights")
    has(train("x", "--max_steps", "2", "--dataset_weights", "1", code=2), "dataset_weights: there are 1 for 2 data sets")
    has(train("x", "--max_steps", "2", "--dataset_weights", "1, 0", code=2), "dataset_weights: '0' is no number above 0")
    has(train("x", "--max_steps", "2", "--eval_dataset_name", f"{folder}/data/held_out.jsonl", code=2), "validation_split holds out a part")


with tempfile.TemporaryDirectory() as folder:
    run(sys.executable, "examples/llm/generate.py", "--out", f"{folder}/data")
    check_ranks(folder)
    check_sources(folder)
    check_killed(folder)
    check_programs(folder)
    check_tokens_folder(folder)
    check_calls()
print("tokens are made once, and are those of memory")
