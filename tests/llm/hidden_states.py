"""distill_llm with hidden_weight: states within the student become the teacher's, on one rank and on two, whole and sharded; projections are
saved apart and resumed."""
import os
import re
import statistics
import struct
import json
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

FILE = "hidden_projections.safetensors"


def names(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        return {name: entry["shape"] for name, entry in json.loads(file.read(size)).items() if name != "__metadata__"}


def train(folder, out, ranks=1, **options):
    config = job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher", max_steps=6,
                        student_model=f"{folder}/student", output_dir=f"{folder}/{out}", global_batch_size=4, gradient_accumulation_steps=4 // ranks,
                        **{"hidden_weight": 2.0, **options})
    return job.must_run(["--config_file", config], ranks=ranks)


def series(folder, out, name):
    return [record[name] for _, record in sorted(job.metrics(f"{folder}/{out}").items())]


def check_ranks(folder):
    train(folder, "one")
    train(folder, "two", ranks=2, zero_stage=3, shard_teacher=True, gradient_checkpointing=True)
    for name in ("loss", "logits", "hidden", "ce", "kl"):
        one, two = series(folder, "one", name), series(folder, "two", name)
        job.check(len(one) == 6 and all(abs(a - b) < 1e-4 * abs(a) for a, b in zip(one, two)), f"{name}: {one} and {two}")
    hidden, logits, loss = (series(folder, "one", name) for name in ("hidden", "logits", "loss"))
    job.check(hidden[-1] < 0.9 * hidden[0], f"the states did not come nearer: {hidden}")
    job.check(all(abs(a + 2 * b - c) < 1e-4 * c for a, b, c in zip(logits, hidden, loss)), "the loss is not its terms' sum")
    print(f"ok: hidden {hidden[0]:.4f} to {hidden[-1]:.4f}, the same on two ranks, sharded and recomputed")


def check_schedule(folder):
    train(folder, "scheduled", ranks=2, hidden_weight=2.0, hidden_weight_schedule="linear", hidden_weight_end=0.5)
    hidden, logits, loss = (series(folder, "scheduled", name) for name in ("hidden", "logits", "loss"))
    weights = [2.0 - 1.5 * step / 5 for step in range(6)]
    job.check(all(abs(a + w * b - c) < 1e-4 * c for a, w, b, c in zip(logits, weights, hidden, loss)), f"{logits} {hidden} {loss}")
    plain = series(folder, "one", "hidden")
    job.check(abs(hidden[0] - plain[0]) < 1e-4 * plain[0] and hidden[-1] > plain[-1], f"a smaller weight trains less: {hidden} {plain}")
    print("ok: a weight that changes over the run")


def check_files(folder):
    for out in ("one", "two"):
        shapes = names(f"{folder}/{out}/{FILE}")
        job.check(shapes == {f"hidden_projections.weight_{i}": [48, 32] for i in (0, 1)}, f"{out}/{FILE} has {shapes}")
        job.check(not any("projections" in name for name in names(f"{folder}/{out}/model.safetensors")), "they are in the model, too")
    answer = job.must_run(["--generate", f"{folder}/one", "--prompt", "count the stones", "--max_new_tokens", "4"])
    job.check(answer.strip(), "no answer")
    print("ok: projections lie beside the model, which runs without them")


def check_resume(folder):
    train(folder, "whole", save_steps=3)
    train(folder, "part", save_steps=3, resume_from_checkpoint=f"{folder}/whole/checkpoint-3")
    for name in ("loss", "hidden"):
        job.check(series(folder, "part", name)[-3:] == series(folder, "whole", name)[-3:], f"{name} after resuming")
    train(folder, "part", hidden_weight=0, overwrite_output_dir=True)
    job.check(not os.path.exists(f"{folder}/part/{FILE}"), "projections of an earlier run are left")
    print("ok: projections are resumed, and go with the run that had them")


def check_refusals(folder):
    for options, words in (({"layer_map": "1:9"}, "teacher has layers 0"), ({"hidden_weight": 0, "layer_map": "1:1"}, "none are"),
                           ({"hidden_weight": 0, "hidden_weight_schedule": "linear", "hidden_weight_end": 1}, "begin above it"),
                           ({"alpha": 0, "teacher_model": "none"}, "hidden_weight")):
        values = {"hidden_weight": 1.0, "teacher_model": f"{folder}/teacher", **options}
        config = job.config(folder, dataset_name=f"{folder}/chat.jsonl", student_model=f"{folder}/student",
                            output_dir=f"{folder}/refused", **values)
        code, output = job.run(["--config_file", config])
        job.check(code == 2 and words in output, f"{options}: exit code {code}\n{output}")
    models = ["--student_model", f"{folder}/student", "--hidden_weight", "1"]
    for flags, words in ((["--plan", "--teacher_model", "none", "--alpha", "0"], "there is no teacher_model"),
                         (["--show_batch", "--dataset_name", f"{folder}/chat.jsonl", "--teacher_model", "none", "--alpha", "0"], "there is no teacher_model"),
                         (["--show_batch", "--dataset_name", f"{folder}/chat.jsonl", "--teacher_model", f"{folder}/teacher", "--layer_map", "1:9"],
                          "teacher has layers 0"),
                         (["--plan", "--teacher_model", f"{folder}/teacher", "--layer_map", "1:2,"], 'layer_map: "" in "1:2," is no pair')):
        code, output = job.run([*models, *flags])
        job.check(code == 2 and words in output, f"{flags}: exit code {code}\n{output}")
    plain, more = (job.must_run(["--plan", "--teacher_model", f"{folder}/teacher", "--student_model", f"{folder}/student", *flags])
                   for flags in ([], ["--hidden_weight", "1"]))
    job.check(plain != more, "--plan does not know hidden_weight")
    print("ok: what cannot be compared is refused, and planned")


def check_not_finite(folder):
    """A teacher whose states are so large that their squares are not finite, although its logits are (its norms end in zeros)."""
    job.make_model(f"{folder}/huge", seed=1, hidden=48, layers=4)
    path = f"{folder}/huge/model.safetensors"
    tensors = {name: (shape, struct.unpack(f"<{len(values) // 4}f", values)) for name, (shape, values) in job.read_safetensors(path).items()}
    shape, values = tensors["model.embed_tokens.weight"]
    job.write_safetensors(path, {**tensors, "model.embed_tokens.weight": (shape, [1e22 * value for value in values])})
    config = job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/huge", student_model=f"{folder}/student",
                        output_dir=f"{folder}/not_finite", hidden_weight=1, max_steps=1)
    code, output = job.run(["--config_file", config])
    for words in ('hidden_weight: the term "hidden" of the first batch is not finite', f"{folder}/huge (teacher_model)", "layer_map"):
        job.check(code == 2 and words in output, f"exit code {code}\n{output}")
    print("ok: states that are not finite are named as such")


def check_memory(folder):
    """--plan counts projections four times (weights, gradients, moments) and a state of both models for each pair and token; what a run
    takes is no more. Medians, since the heap's holes differ from run to run."""
    job.make_chat(f"{folder}/many.jsonl", rows=400)
    job.make_model(f"{folder}/wide", seed=3, hidden=512, layers=8, heads=8, kv_heads=1, intermediate=128)
    job.make_shape(f"{folder}/deep", hidden=256, layers=8, heads=4, kv_heads=2, intermediate=768, vocab=None)
    planned, measured = {}, {}
    for weight in (0, 1):
        run = ["--config_file", job.config(folder, dataset_name=f"{folder}/many.jsonl", teacher_model=f"{folder}/wide", max_steps=2,
                                           student_model=f"{folder}/deep", per_device_train_batch_size=16, packing=True, max_length=128,
                                           print_metrics=True, save_strategy="no", output_dir=f"{folder}/memory_{weight}", hidden_weight=weight)]
        planned[weight] = float(re.search(r"([\d.]+) GiB +a rank", job.must_run([*run, "--plan"]))[1])
        peaks = [float(re.search(r"peak_memory_gib = ([\d.]+)", job.must_run([*run, "--overwrite_output_dir"]))[1]) for _ in range(3)]
        measured[weight] = statistics.median(peaks)
    rises = [memory[1] - memory[0] for memory in (planned, measured)]
    pairs, tokens, size, gib = 8, 16 * 128, 4, 2**30
    expected = pairs * size * (4 * 512 * 256 + tokens * (512 + 256)) / gib
    job.check(abs(rises[0] - expected) < 0.002, f"planned {planned}, expected {expected} more")
    job.check(0 < rises[1] < 1.1 * rises[0] and measured[1] < planned[1], f"planned {planned}, measured {measured}")
    print(f"ok: memory rises by {rises[1]:.3f} GiB over {measured[0]:.3f}, planned {rises[0]:.3f}")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48, layers=4)
    job.make_model(f"{folder}/student", seed=2, layers=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=32)
    check_ranks(folder)
    check_schedule(folder)
    check_files(folder)
    check_resume(folder)
    check_refusals(folder)
    check_not_finite(folder)
    check_memory(folder)


main()
