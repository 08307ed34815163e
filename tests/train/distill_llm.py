"""distill_llm as a user runs it: what it prints, what it leaves in its output folder, and rows of padding that stay."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def check_training(folder, vocab):
    out = f"{folder}/out"
    output = job.must_run(["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", eval_dataset_name=f"{folder}/held_out.jsonl",
        teacher_model=f"{folder}/teacher", student_model=f"{folder}/student", output_dir=out, max_steps=6, eval_steps=4,
        save_steps=2, save_total_limit=2, per_device_train_batch_size=4, weight_decay=0.5)], ranks=2)
    for name in ("train_runtime", "train_samples_per_second", "train_tokens_per_second", "train_steps_per_second", "data_wait_seconds",
                 "train_loss", "peak_memory_gib", "eval_loss", "epoch"):
        job.check(len(re.findall(rf"^{name} = \d[\d.e+-]*$", output, re.M)) == 1, f"no line '{name} = value' in\n{output}")
        job.check(job.scraped(output, name), f"a log scraper finds no {name} in\n{output}")
    job.check(os.path.getsize(f"{out}/curves.png") > 10000, "no curves were drawn")
    records = job.metrics(out)
    job.check(list(records) == [1, 2, 3, 4, 5, 6], f"steps {list(records)}")
    for key in ("loss", "kl", "ce", "grad_norm", "learning_rate", "epoch", "tokens_per_second",
                "data_wait_seconds"):
        job.check(all(isinstance(record[key], float) for record in records.values()), f"{key} in {records}")
    for record in records.values():
        mixed = 0.5 * record["kl"] + 0.5 * record["ce"]
        job.check(abs(record["loss"] - mixed) < 1e-5 * mixed, f"loss is not the mixture of kl and ce: {record}")
    with open(f"{out}/metrics.jsonl", encoding="utf-8") as file:
        evaluations = [record["step"] for record in map(json.loads, file) if "eval_loss" in record]
    job.check(evaluations == [4, 6], f"evaluated at {evaluations}")
    checkpoints = sorted(name for name in os.listdir(out) if "checkpoint" in name)
    job.check(checkpoints == ["checkpoint-4", "checkpoint-6"], f"checkpoints {checkpoints}")

    before, after = job.read_safetensors(f"{folder}/student/model.safetensors"), job.read_safetensors(f"{out}/model.safetensors")
    job.check(before.keys() == after.keys(), f"{sorted(before.keys() ^ after.keys())} is only on one side")
    shape, old = before["model.embed_tokens.weight"]
    new, row = after["model.embed_tokens.weight"][1], 4 * shape[1]
    job.check(old[vocab * row:] == new[vocab * row:], "rows of padding were changed")
    job.check(old[:vocab * row] != new[:vocab * row], "no row was trained")
    print("ok: training on two ranks, padded vocabulary")
    return out


def check_resolved_config(out, folder):
    """The saved config is a config file that gives the same steps."""
    output = job.must_run(["--config_file", f"{out}/resolved_config.yaml", "--output_dir", f"{folder}/again", "--max_steps", "6",
                           "--print_metrics"], ranks=2)
    job.check_reports(f"{folder}/again", output)
    again, first = job.metrics(f"{folder}/again"), job.metrics(out)
    job.check([again[step]["loss"] for step in again] == [first[step]["loss"] for step in first], f"{again}, {first}")
    print("ok: the resolved config repeats the run")


def check_output_folder(folder):
    """Another run into the student's folder is refused before it loads anything; the folder of a run keeps no leave to overwrite."""
    job.make_shape(f"{folder}/shape", hidden=32, layers=2, heads=4, kv_heads=2, intermediate=64, vocab=None)
    shape = ["--config_file", job.config(folder, dataset_name=f"{folder}/chat.jsonl", alpha=0, output_dir=f"{folder}/short",
                                         student_model=f"{folder}/shape", max_steps=2)]
    output = job.must_run(shape, ranks=2)
    job.check("a new student starts from random ones" in output, output)
    code, output = job.run(shape, ranks=2)
    job.check(code == 2 and output.count("error: ") == 1, f"exit code {code}\n{output}")
    job.check(f"{folder}/short holds a model already" in output and "overwrite_output_dir" in output, output)
    job.check("rows 50" not in output, f"the data was read first:\n{output}")
    job.must_run([*shape, "--overwrite_output_dir", "--save_steps", "1"])
    with open(f"{folder}/short/resolved_config.yaml", encoding="utf-8") as file:
        job.check("overwrite_output_dir: false" in file.read(), "another run of the same config would overwrite this one")
    output = job.must_run([*shape, "--max_steps", "3", "--resume_from_checkpoint", "latest"], ranks=2)
    job.check("random" not in output.split("resuming from")[0] and "those of the checkpoint" in output, output)
    check_sources(shape, folder)
    print("ok: the output folder of another run")


def check_sources(arguments, folder):
    """What a run may replace is not what it reads: a model that another run's checkpoint holds, or data beside it."""
    out, checkpoint = f"{folder}/short", f"{folder}/short/checkpoint-2"
    os.symlink(out, f"{folder}/link")
    shutil.copy(f"{folder}/chat.jsonl", checkpoint)
    for source in (["--student_model", f"{folder}/link/checkpoint-2"], ["--teacher_model", out, "--alpha", "1"],
                   ["--dataset_name", f"{checkpoint}/chat.jsonl"]):
        code, output = job.run([*arguments, *source, "--overwrite_output_dir"], ranks=2)
        job.check(code == 2 and output.count("error: ") == 1, f"exit code {code}\n{output}")
        job.check(f"{source[0][2:]}: {source[1]} is in output_dir {out}" in output, output)
        job.check("rows 50" not in output and os.path.exists(f"{checkpoint}/manifest.pb"), output)


def check_generate(out):
    greedy = ["--generate", out, "--prompt", "count the stones", "--max-new-tokens=8"]
    first, second = job.must_run(greedy), job.must_run(greedy)
    job.check(first.splitlines()[-1] == second.splitlines()[-1], f"greedy answers differ: {first}, {second}")
    sampled = [job.must_run(greedy + ["--sampling_temperature", "1.5", "--seed", str(seed)]) for seed in (1, 1, 2)]
    job.check(sampled[0] == sampled[1] != sampled[2], f"samples {sampled}")
    print(f"ok: generation, '{first.strip()}'")


def check_show_batch(folder):
    output = job.must_run(["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
        student_model=f"{folder}/student", output_dir=f"{folder}/none", per_device_train_batch_size=2), "--show-batch"])
    job.check("<|im_start|>assistant" in output and "user" in output, output)
    likely = r'("([^"\\]|\\.)*"|id \d+, which is no token) 0\.\d{3}'
    answers = rf'row 0, token \d+: "[^\n]*" follows "[^\n]*"\n  teacher \| {likely}(, {likely}){{4}}\n  student \| {likely}(, {likely}){{4}}\n'
    job.check(len(re.findall(answers, output)) > 0, f"no likely tokens:\n{output}")
    job.check(not os.path.exists(f"{folder}/none"), "showing a batch made the output folder")
    print("ok: --show-batch")


def check_types(folder):
    """A type that this CPU computes in software is warned of, and what a step will be is said before the first one."""
    short = ["--config_file", job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
                                         student_model=f"{folder}/student", max_steps=1, device="cpu",
                                         per_device_train_batch_size=2)]
    slow = job.must_run([*short, "--bf16", "true", "--output_dir", f"{folder}/slow"], ranks=2, DISTILL_CPU="avx2")
    job.check(slow.count("without bfloat16 instructions") == 1, slow)
    fast = job.must_run([*short, "--bf16", "auto", "--output_dir", f"{folder}/fast"], ranks=2, DISTILL_CPU="avx2")
    job.check("instructions" not in fast, fast)
    step = r"training \d\.\d million parameters in {}; a step is 2 ranks x \d+ micro-batch(es)? of 2 rows of up to \d+ tokens\n"
    job.check(re.search(step.format("BFloat16"), slow) and re.search(step.format("Float"), fast), f"{slow}\n{fast}")
    print("ok: warned of slow types")


def check_help():
    output = job.must_run(["--help"])
    for name in ("--config_file", "--learning_rate", "--heartbeat_timeout_seconds", "--generate"):
        job.check(name in output, f"{name} is not in the help")
    version = subprocess.run([f"{job.BIN}/distill_llm", "--version"], stdout=subprocess.PIPE, text=True, check=True)
    job.check(re.fullmatch(r"libdistill \d+\.\d+\.\d+ \(.*\)\n", version.stdout), version.stdout)
    print("ok: --help, --version")


def main():
    folder = job.workspace()
    with open(os.path.join(job.TOKENIZER, "config.json"), encoding="utf-8") as file:
        vocab = json.load(file)["vocab_size"]
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2, vocab=vocab + 64)
    job.make_chat(f"{folder}/chat.jsonl", rows=50)
    job.make_chat(f"{folder}/held_out.jsonl", rows=9, seed=5)
    out = check_training(folder, vocab)
    check_resolved_config(out, folder)
    check_output_folder(folder)
    check_generate(out)
    check_show_batch(folder)
    check_types(folder)
    check_help()
    shutil.rmtree(folder)


main()
