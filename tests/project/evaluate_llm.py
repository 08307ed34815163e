"""evaluate_llm counts an answer as right whichever of the ends that its model folder names it ends with."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLM = os.path.join(SOURCE, "examples", "llm")
ROWS = 40


def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, f"{' '.join(command)}:\n{done.stdout}"


def must(*command):
    code, output = call(*command)
    if code != 0:
        sys.exit(f"FAILED: exit code {code}: {output}")


def edit(path, **values):
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    content.update(values)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def make_teacher(folder):
    """The committed one, whose template ends turns with a token (1023) that its tokenizer no longer says it ends with, under a
    name that nobody knows."""
    shutil.copytree(os.path.join(LLM, "teacher"), folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            content = file.read()
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content.replace("<|im_end|>", "<|over|>"))
    edit(os.path.join(folder, "tokenizer_config.json"), eos_token="<|endoftext|>")
    edit(os.path.join(folder, "config.json"), eos_token_id=1021)
    with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
        json.dump({"eos_token_id": [1021, 1023]}, file)


def main():
    program = os.path.join(os.environ["DISTILL_BUILD_DIR"], "bin", "evaluate_llm")
    with tempfile.TemporaryDirectory() as folder:
        must(sys.executable, os.path.join(LLM, "generate.py"), "--out", folder)
        with open(os.path.join(folder, "held_out.jsonl"), encoding="utf-8") as file:
            rows = file.readlines()[:ROWS]
        data = os.path.join(folder, "rows.jsonl")
        with open(data, "w", encoding="utf-8") as file:
            file.writelines(rows)
        teacher, student, figures = (os.path.join(folder, name) for name in ("teacher", "student", "figures.json"))
        make_teacher(teacher)
        shutil.copytree(teacher, student)  # a student's folder names the token of its config alone
        os.remove(os.path.join(student, "generation_config.json"))
        command = [program, "--teacher", teacher, "--dataset", data, "--json", figures]
        must(*command, f"teacher={teacher}", f"student={student}")
        with open(figures, encoding="utf-8") as file:
            found = json.load(file)
        print(found)
        if any(found[name]["exact_match"] < 0.9 for name in ("teacher", "student")):
            sys.exit("FAILED: answers that end with what generation_config.json names are not counted")
        # A folder that names no end at all.
        os.remove(os.path.join(teacher, "generation_config.json"))
        edit(os.path.join(teacher, "config.json"), eos_token_id=None)
        edit(os.path.join(teacher, "tokenizer_config.json"), eos_token=None)
        code, output = call(*command, f"teacher={teacher}")
        if code != 2 or f"{teacher}: nothing says where an answer ends" not in output:
            sys.exit(f"FAILED: exit code {code}: {output}")


main()
