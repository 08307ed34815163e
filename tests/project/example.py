"""The README's program: the same text as examples/first/first.cc, run on two ranks, inside the tree and outside of it."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

BUILD = os.path.dirname(job.BIN)


def check_readme():
    with open(f"{job.SOURCE}/examples/first/first.cc", encoding="utf-8") as file:
        program = file.read()
    with open(f"{job.SOURCE}/README.md", encoding="utf-8") as file:
        job.check(program in file.read(), "README.md does not show examples/first/first.cc as it is")


def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, f"{' '.join(command)}:\n{done.stdout}"


def build_outside(folder):
    """Against a package that was moved after its installation, into a folder with a space in its name."""
    prefix = f"{folder}/moved here"
    configure = ["cmake", "-S", f"{job.SOURCE}/tests/project/outside", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                 f"-DFIRST_SOURCE={job.SOURCE}/examples/first/first.cc", "-B"]
    code, output = call("cmake", "--install", BUILD, "--prefix", f"{folder}/installed")
    job.check(code == 0, output)
    os.rename(f"{folder}/installed", prefix)
    code, output = call(*configure, f"{folder}/no torch", f"-DDISTILL_TORCH_DIR={folder}/gone")
    job.check(code != 0 and f"No LibTorch in '{folder}/gone'" in output, output)
    for step in ([*configure, f"{folder}/outside"], ["cmake", "--build", f"{folder}/outside"]):
        code, output = call(*step)
        job.check(code == 0, output)
    return f"{folder}/outside/first"


def use_installed_programs(folder):
    """All programs that a user starts are installed, and work from there."""
    programs = f"{folder}/moved here/bin"
    for name in "distill_llm", "evaluate_llm", "distillrun":
        code, output = call(f"{programs}/{name}", "--version")
        job.check(code == 0 and re.search(r"\d+\.\d+\.\d+", output), output)
    code, output = call(f"{programs}/distillrun", "-np", "2", f"{programs}/distill_llm", "--dataset_name",
                        f"{folder}/chat.jsonl", "--teacher_model", f"{folder}/teacher", "--student_model",
                        f"{folder}/teacher", "--max_steps", "1", "--output_dir", f"{folder}/installed out")
    job.check(code == 0 and os.path.exists(f"{folder}/installed out/model.safetensors"), output)
    code, output = call(f"{programs}/evaluate_llm", "--teacher_model", f"{folder}/teacher", "--dataset_name",
                        f"{folder}/chat.jsonl", f"own={folder}/installed out")
    job.check(code == 0, output)
    job.check(os.path.exists(f"{programs}/distill_tune"), "distill_tune, which distillrun --tune starts, is not installed")
    job.check(os.path.exists(f"{programs}/distill_tokenize"), "distill_tokenize is not installed")
    print("ok: the installed programs train and evaluate")


def run(folder, program, name):
    command = [f"{job.BIN}/distillrun", "-np", "2", program, f"{folder}/teacher", f"{folder}/student",
               f"{folder}/chat.jsonl", f"{folder}/{name}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    job.check(done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    answer = job.must_run(["--generate", f"{folder}/{name}", "--prompt", "count the stones", "--max-new-tokens=4"])
    print(f"ok: {name} opens again, and answers {answer.strip()!r}")
    return [line["loss"] for _, line in sorted(job.metrics(f"{folder}/{name}").items())]


def refuse(name, arguments, *parts):
    code, output = call(f"{job.BIN}/distillrun", "-np", "2", f"{job.BIN}/first", *arguments)
    job.check(code == 2 and all(part in output for part in parts), f"{name}: exit code {code}, not {parts} in {output}")
    print(f"ok: {name}")


def check_refusals(folder):
    rest = [f"{folder}/chat.jsonl", f"{folder}/none"]
    refuse("no arguments", [], "usage: first TEACHER STUDENT")
    job.make_model(f"{folder}/small", seed=2, vocab=200)
    refuse("a head below the tokenizer", [f"{folder}/teacher", f"{folder}/small", *rest], "/small", "200 rows")
    job.make_model(f"{folder}/other", seed=2)
    with open(f"{folder}/other/tokenizer.json", encoding="utf-8") as file:
        tokenizer = json.load(file)
    vocab = tokenizer["model"]["vocab"]
    by_id = {index: token for token, index in vocab.items()}
    vocab[by_id[50]], vocab[by_id[51]] = 51, 50
    with open(f"{folder}/other/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    refuse("tokenizers that differ", [f"{folder}/teacher", f"{folder}/other", *rest], "id 50 is", "/teacher", "/other")


def main():
    check_readme()
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2, tokenizer=False)  # the teacher's goes with it
    job.make_chat(f"{folder}/chat.jsonl", rows=64)
    check_refusals(folder)
    inside = run(folder, f"{job.BIN}/first", "inside")
    outside = run(folder, build_outside(folder), "outside")
    use_installed_programs(folder)
    job.check(inside == outside and len(inside) == 12, f"losses differ: {inside} and {outside}")
    job.check(inside[-1] < inside[0], f"the loss did not fall: {inside}")
    print(f"ok: losses {inside[0]:.4f} to {inside[-1]:.4f}, inside and outside the tree")


main()
