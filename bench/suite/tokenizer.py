"""Tokenizers: megabytes of UTF-8 a second made into ids, for prose, code and Chinese, on one thread and on two.

The ids of all are compared before anything is timed. Vocabularies and texts come with the peers' packages.
"""
import os
import re
import subprocess
import sys

from suite.programs import BIN, PEERS, REPO, build, own_results, say
from suite.rounds import in_rounds, lines

BPE = ["tokenizers", "tiktoken", "quicktok"]
PEERS_OF = {"qwen3": BPE, "llama3": BPE, "cl100k": [*BPE, "rs-bpe"], "o200k": [*BPE, "rs-bpe"], "wordpiece": ["tokenizers"],
            "unigram": ["tokenizers", "sentencepiece"]}
TEXTS = ("prose", "code", "chinese")
SIZE, QUICK_SIZE = 10_000_000, 1_000_000


def files(python, size):
    """The folder of texts and tokenizers, made where it is missing."""
    folder = f"{REPO}/build/bench/tokenizer-{size}"
    if not os.path.exists(f"{folder}/complete"):
        say(f"making texts and tokenizers in {folder}")
        subprocess.run([f"{python}/python", f"{PEERS}/tokenizer_files.py", folder, str(size)], check=True)
        with open(f"{folder}/complete", "w", encoding="utf-8"):
            pass
    return folder


def output(command, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with exit code {done.returncode}")
    return done.stdout


def ours(folder, name, text, threads):
    said = output([f"{BIN}/distill_tokenize", "--count", "--zeros", "--threads", str(threads), f"{folder}/{name}", f"{folder}/{text}.zero"],
                  threads)
    rate, checksum = re.search(r"([\d.]+) MB/s, checksum (\w+)", said).groups()
    return {"mb_s": float(rate), "checksum": checksum}


def peer(python, which, folder, name, text, threads):
    result, = own_results(output([f"{python}/python", f"{PEERS}/time_tokenizer.py", which, f"{folder}/{name}", f"{folder}/{text}.zero",
                                  str(threads)], threads).splitlines())
    return result


def agreeing(python, folder, quick):
    """{case: peers whose ids are ours}. The package `tokenizers` says what is right; another peer may read Unicode's tables or a
    pattern otherwise, and is left out then."""
    found = {}
    for name, peers in PEERS_OF.items():
        for text in TEXTS:
            right = ours(folder, name, text, 1)["checksum"]
            same = [which for which in peers if peer(python, which, folder, name, text, 1)["checksum"] == right]
            if "tokenizers" not in same:
                sys.exit(f"error: {name} of {text}: the ids are not those of the package tokenizers")
            for which in sorted(set(peers) - set(same)):
                say(f"{which} gives other ids for {name} of {text}, and is not timed there")
            for threads in (1,) if quick else (1, 2):
                found[f"{name}/{text}/{threads}"] = same
    return found


def bench(options):
    python = build("distill_tokenize", peers=True)
    folder = files(python, QUICK_SIZE if options.quick else SIZE)
    peers = agreeing(python, folder, options.quick)

    def contestant(run, cases):
        def figures(case):
            name, text, threads = case.split("/")
            return {"mb_s": run(name, text, int(threads))["mb_s"]}
        return lambda: {case: figures(case) for case in cases}

    contestants = {"ours": contestant(lambda *case: ours(folder, *case), peers)}
    for which in sorted({which for several in peers.values() for which in several}) if options.peers else ():
        cases = [case for case, several in peers.items() if which in several]
        contestants[which] = contestant(lambda *case, which=which: peer(python, which, folder, *case), cases)
    found = in_rounds(contestants, options.rounds)
    for case in peers:
        yield from lines("tokenizer", case, "MB/s", found, "mb_s")
