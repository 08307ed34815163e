"""Rows that cannot be used, among good ones: refused before the first step, all at once, or left out with one warning, and then
the job is the one of the file without them; more than the limit are refused."""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

RANKS = 2
GOOD = 40
BAD = [b'{"messages": [{"role": "user", "content": "cut o',
       b'{"messages": [{"role": "user", "content": "\xff\xfe"}, {"role": "assistant", "content": "x"}]}',
       b'[1, 2, 3]',
       b'{"story": "no chat"}',
       b'{"messages": [{"role": "wizard", "content": "x"}]}',
       b'{"messages": [{"role": "user"}, {"role": "assistant", "content": "x"}]}',
       b'{"messages": [{"role": "user", "content": ["x"]}, {"role": "assistant", "content": "x"}]}',
       b'{"messages": [{"role": "user", "content": "no answer"}]}',
       b'{"tools": {"name": "f"}, "messages": [{"role": "assistant", "content": "x"}]}',
       b'{"messages": [{"role": "system", "content": "alone"}, {"role": "assistant", "content": "stop"}]}',
       b'{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "dumb"}]}',
       b"[" * 100 + b"]" * 100,
       b'{"messages": "x"}']
# Refuses a conversation that says stop, and leaves an answer out.
TEMPLATE = ("{% for m in messages %}{% if m.content == 'stop' %}{{ raise_exception('no stopping') }}{% endif %}{{ m.role }}: "
            "{% generation %}{% if m.content != 'dumb' %}{{ m.content }}{% endif %}{% endgeneration %}\n{% endfor %}")
NAMED = 10


def mixed(path, good, copies=1):
    """The good file's rows with each bad one somewhere among them; the lines of the bad ones."""
    with open(good, "rb") as file:
        rows = [(line.rstrip(b"\n"), False) for line in file]
    rng = random.Random(7)
    for bad in BAD * copies:
        rows.insert(rng.randrange(len(rows) + 1), (bad, True))
    with open(path, "wb") as file:
        file.write(b"".join(row + b"\n" for row, _ in rows))
    return [number for number, (_, is_bad) in enumerate(rows, 1) if is_bad]


def run(folder, out, ranks=RANKS, **options):
    return job.run(["--config_file", job.config(
        folder, **{"teacher_model": f"{folder}/teacher", "student_model": f"{folder}/student", "chat_template": TEMPLATE,
                   "output_dir": f"{folder}/{out}", "num_train_epochs": 2, **options})], ranks=ranks)


def must_train(*arguments, **options):
    code, output = run(*arguments, **options)
    job.check(code == 0, f"exit code {code}:\n{output}")
    return output


def check_refused(folder, name, path, lines, message, **options):
    """Exit code 2, one error that names the first ten lines, and no training."""
    code, output = run(folder, "refused", **options)
    job.check(code == 2, f"{name}: exit code {code}\n{output}")
    job.check(f"error: {path} has {len(lines)} bad row" in output and message in output, f"{name}: no '{message}' in\n{output}")
    job.check(output.count("error: ") == 1, f"{name}: not one error\n{output}")
    said = [line for line in output.splitlines() if line.startswith(f"  {path}:")]
    job.check([int(line[len(path) + 3:].split(":")[0]) for line in said] == lines[:NAMED], f"{name}: other rows are named:\n{output}")
    job.check(len(lines) <= NAMED or f"\n  and {len(lines) - NAMED} more" in output, f"{name}: the others are not counted\n{output}")
    job.check(not os.path.exists(f"{folder}/refused/metrics.jsonl"), f"{name}: training began")
    print(f"ok: {name}: {output[output.index('error: '):].splitlines()[0]}")


def check_same(folder, one, other):
    """Bit for bit: what was trained on, what came of it, and what held-out data said."""
    for key in ("loss", "eval_loss"):
        expected, found = job.metrics(f"{folder}/{one}", key), job.metrics(f"{folder}/{other}", key)
        values = [{step: json.dumps(line[key]) for step, line in metrics.items()} for metrics in (expected, found)]
        job.check(values[0] and values[0] == values[1], f"{key} differs: {values[0]}\n{values[1]}")
    with open(f"{folder}/{one}/model.safetensors", "rb") as first, open(f"{folder}/{other}/model.safetensors", "rb") as second:
        job.check(first.read() == second.read(), "the weights differ")


def check_skipped(folder, good, bad, lines):
    held_out, bad_held_out = f"{folder}/held_out.jsonl", f"{folder}/bad_held_out.jsonl"
    job.make_chat(held_out, rows=12, seed=3)
    held_out_lines = mixed(bad_held_out, held_out)
    evaluated = {"eval_strategy": "epoch"}
    clean = must_train(folder, "clean", dataset_name=good, eval_dataset_name=held_out, **evaluated)
    output = must_train(folder, "skipped", dataset_name=bad, eval_dataset_name=bad_held_out, bad_rows="skip", **evaluated)
    job.check("bad row" not in clean, clean)
    for path, count, rows in ((bad, len(lines), GOOD), (bad_held_out, len(held_out_lines), 12)):
        said = f"{path} has {count} bad rows among {rows + count}, which are left out (bad_rows: skip):\n  {path}:"
        job.check(output.count(said) == 1 and output.count(f"{path} has ") == 1, f"not one warning of {path}:\n{output}")
    check_same(folder, "clean", "skipped")
    print("ok: bad rows are left out, of held-out data too, and nothing else changes")
    check_refused(folder, "bad rows of held-out data", bad_held_out, held_out_lines, "mend or remove them",
                  dataset_name=good, eval_dataset_name=bad_held_out)


def check_resumed(folder, bad):
    """What was left out of the first part of a run is mended in the second: the rest of the epoch would be another one."""
    must_train(folder, "whole", dataset_name=bad, bad_rows="skip", save_steps=5)
    resume = {"dataset_name": bad, "resume_from_checkpoint": f"{folder}/whole/checkpoint-5"}
    with open(bad, "rb") as file:
        lines = file.readlines()
    with open(bad, "wb") as file:
        file.writelines(lines[0] if line.rstrip(b"\n") in BAD else line for line in lines)
    code, output = run(folder, "refused", **resume)
    job.check(code == 2 and f"within an epoch of {GOOD} samples, but the data set has {GOOD + len(BAD)}" in output,
              f"a resumed run with more rows: exit code {code}\n{output}")
    with open(bad, "wb") as file:
        file.writelines(lines)
    must_train(folder, "resumed", bad_rows="skip", max_bad_rows=len(BAD), **resume)
    expected, found = job.metrics(f"{folder}/whole"), job.metrics(f"{folder}/resumed")
    job.check(found and all(json.dumps(line["loss"]) == json.dumps(expected[step]["loss"]) for step, line in found.items()),
              "the resumed run has other losses")
    print("ok: a run resumes with the same rows, and with no others")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    good, bad = f"{folder}/good.jsonl", f"{folder}/bad.jsonl"
    job.make_chat(good, rows=GOOD)
    lines = mixed(bad, good)
    check_refused(folder, "bad rows", bad, lines, "mend or remove them, or leave them out (bad_rows: skip)", dataset_name=bad)
    check_refused(folder, "more than the limit", bad, lines, f"more than max_bad_rows, {len(BAD) - 1}", dataset_name=bad,
                  bad_rows="skip", max_bad_rows=len(BAD) - 1)
    many = f"{folder}/many.jsonl"
    check_refused(folder, "more than a hundred", many, mixed(many, good, copies=8), "more than max_bad_rows, 100",
                  dataset_name=many, bad_rows="skip")
    none = f"{folder}/none.jsonl"
    with open(none, "wb") as file:
        file.write(BAD[0] + b"\n")
    check_refused(folder, "no good row", none, [1], "and no other", dataset_name=none, bad_rows="skip")
    check_skipped(folder, good, bad, lines)
    check_resumed(folder, bad)


main()
