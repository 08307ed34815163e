"""distill_tokenize shows the ids, offsets and counts of the package `tokenizers`, and says what is wrong with its arguments."""
import os
import re
import subprocess
import sys

from tokenizers import Tokenizer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

BUILD = os.environ["DISTILL_BUILD_DIR"]
PROGRAM = f"{BUILD}/bin/distill_tokenize"
TEXT = "Where's the caf\u00e9?\n\u4f60\u597d, world 12345\nlast"


def run(*arguments, given=TEXT):
    return subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, text=True)


def shown(folder, *options):
    done = run(*options, folder, "-")
    job.check(done.returncode == 0, done.stderr)
    *rows, summary = done.stdout.splitlines()
    return [[int(number) for number in re.match(r" *(\d+)-(\d+)\t(\d+)\t", row).groups()] for row in rows], summary


def in_bytes(text, characters):
    return len(text[:characters].encode())


def expected(tokenizer, texts, special):
    encodings = [tokenizer.encode(text, add_special_tokens=special) for text in texts]
    return [[in_bytes(text, begin), in_bytes(text, end), token]
            for text, encoding in zip(texts, encodings) for (begin, end), token in zip(encoding.offsets, encoding.ids)]


def checksum(tokenizer, texts):
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return sum((token + 1) * number for row in ids for number, token in enumerate(row, 1)) % (1 << 64)


def main():
    for kind in ("bert", "qwen2", "t5", "llama2"):
        folder = f"{BUILD}/golden/text/{kind}"
        tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        for options, texts, special in [([], [TEXT], False), (["--lines"], TEXT.split("\n"), False),
                                        (["--add_special_tokens"], [TEXT], True)]:
            rows, summary = shown(folder, *options)
            job.check(rows == expected(tokenizer, texts, special), f"{kind} {options}: {rows}")
            job.check(f"{len(TEXT.encode())} bytes, {len(texts)} text" in summary, summary)
            job.check(f"checksum {checksum(tokenizer, texts):016x}" in summary, summary)
    lines = "\n".join([TEXT] * 500) + "\n"
    outputs = {re.sub(r"[\d.]+ MB/s", "", run("--count", "--lines", "--threads", threads, folder, "-", given=lines).stdout)
               for threads in ("1", "2", "5")}
    job.check(len(outputs) == 1 and "1500 texts" in next(iter(outputs)), f"threads change what is counted: {outputs}")
    for arguments, message in [([folder], "at least one FILE"), ([folder, "none.txt"], "none.txt"),
                               (["none", "-"], "none/tokenizer.json"), (["--threads", "2", folder, "-"], "--lines"),
                               (["--threads", "0", "--lines", folder, "-"], "threads")]:
        done = run(*arguments)
        job.check(done.returncode == 1 and message in done.stderr, f"{arguments}: {done.stderr}")
    print("ok: distill_tokenize")


main()
