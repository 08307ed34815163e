"""No held-out prompt is in any training file, for each seed that the documents give figures for, nor in the teacher's."""
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLM = os.path.join(SOURCE, "examples", "llm")


def run(program, *arguments):
    return subprocess.run([sys.executable, os.path.join(LLM, program), *arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


def main():
    with open(os.path.join(LLM, "teacher.yaml"), encoding="utf-8") as file:
        rows = re.search(r"generate\.py .*--teacher (\d+)", file.read())[1]  # as many as the committed teacher saw
    with tempfile.TemporaryDirectory() as folder:
        held_out, training = [], []
        for seed in ("42", "43", "44"):
            out = os.path.join(folder, seed)
            made = run("generate.py", "--out", out, "--seed", seed, "--teacher", rows)
            if made.returncode != 0:
                sys.exit(made.stdout)
            held_out.append(os.path.join(out, "held_out.jsonl"))
            training += [os.path.join(out, "train.jsonl"), os.path.join(out, "teacher_train.jsonl")]
        for path in held_out:
            checked = run("check_held_out.py", path, *training)
            print(checked.stdout)
            if checked.returncode != 0:
                sys.exit(f"FAILED: {path}")
        # The check itself: a held-out file among the training files is found.
        if run("check_held_out.py", held_out[0], held_out[0]).returncode != 1:
            sys.exit("FAILED: check_held_out.py does not see a held-out prompt in a training file")


main()
