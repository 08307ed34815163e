"""distill_llm --plan: what it prints, what it refuses, and that runs then take what it says, within 10 %."""
import json
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

# So that weights, activations and the loss each are a good part of a rank's memory, and a step takes a second.
SHAPE = {"hidden": 512, "layers": 6, "heads": 8, "kv_heads": 4, "intermediate": 1408, "vocab": 8192}
# bf16 is slow where the CPU has no instructions for it: few tokens.
FEW = {"max_length": 16, "per_device_train_batch_size": 1}
RUNS = [(1, {}),
        (1, {"gradient_checkpointing": True}),
        (1, {"bf16": True, **FEW}),
        (1, {"packing": True, "gradient_accumulation_steps": 2}),
        (2, {"bf16": True, "gradient_accumulation_steps": 2, **FEW}),
        (2, {"zero_stage": 0}),
        (2, {"zero_stage": 1}),
        (2, {"zero_stage": 3, "shard_teacher": True}),
        (2, {"zero_stage": 2, "gradient_compression": "bf16"}),
        (2, {"zero_stage": 2, "bf16": True, "gradient_checkpointing": True, **FEW})]


def make_chat(path):
    """Answers that fill a row, so that the loss is taken nearly everywhere."""
    with open(path, "w", encoding="utf-8") as file:
        for i in range(40):
            answer = " ".join(f"stone {i + k}" for k in range(200))
            file.write(json.dumps({"messages": [{"role": "user", "content": "count"},
                                                {"role": "assistant", "content": answer}]}) + "\n")


def workspace():
    folder = job.workspace()
    # The teacher's come out of a file, the student's are drawn; both are of one shape.
    job.make_shape(f"{folder}/student", **SHAPE)
    shutil.copytree(f"{folder}/student", f"{folder}/teacher")
    with open(os.path.join(folder, "teacher", "model.safetensors"), "wb") as file:
        header, size = header_of_zeros()
        file.write(header)
        file.truncate(len(header) + size)
    make_chat(f"{folder}/chat.jsonl")
    return folder


def header_of_zeros():
    """The header of a file of zeros, and how many bytes of them follow."""
    hidden, keys, wide, vocab = 512, 256, 1408, 8192
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for layer in range(SHAPE["layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + "self_attn.q_proj.weight": [hidden, hidden], prefix + "self_attn.q_proj.bias": [hidden],
                   prefix + "self_attn.k_proj.weight": [keys, hidden], prefix + "self_attn.k_proj.bias": [keys],
                   prefix + "self_attn.v_proj.weight": [keys, hidden], prefix + "self_attn.v_proj.bias": [keys],
                   prefix + "self_attn.o_proj.weight": [hidden, hidden], prefix + "mlp.gate_proj.weight": [wide, hidden],
                   prefix + "mlp.up_proj.weight": [wide, hidden], prefix + "mlp.down_proj.weight": [hidden, wide],
                   prefix + "input_layernorm.weight": [hidden], prefix + "post_attention_layernorm.weight": [hidden]}
    return job.safetensors_header(shapes)


def settings(folder, **options):
    values = {"dataset_name": f"{folder}/chat.jsonl", "teacher_model": f"{folder}/teacher",
              "student_model": f"{folder}/student", "output_dir": f"{folder}/out", "max_length": 128, "max_steps": 2,
              "per_device_train_batch_size": 4, "learning_rate": 1e-5}
    return job.config(folder, **{**values, **options})


def gib(pattern, text):
    match = re.search(rf"([\d.]+) GiB  {pattern}", text)
    job.check(match, f"no line of '{pattern}' in\n{text}")
    return float(match[1])


def check_runs(folder):
    for ranks, options in RUNS:
        config = settings(folder, **options)
        plan = job.must_run(["--plan", "--world_size", str(ranks), "--config_file", config])
        planned = gib("a rank ", plan)
        output = job.must_run(["--config_file", config], ranks=ranks)
        measured = float(re.search(r"^peak_memory_gib = ([\d.]+)$", output, re.M)[1])
        what = f"{ranks} rank(s), {options}: planned {planned:.3f} GiB, measured {measured:.3f} ({planned / measured - 1:+.1%})"
        job.check(abs(planned / measured - 1) < 0.1, f"{what}\n{plan}")
        shutil.rmtree(f"{folder}/out")
        print(f"ok: {what}")


def check_plan_of_a_large_job(folder):
    """No data, no weights, no output folder, more ranks than there could be here: in about a second."""
    start = time.monotonic()
    config = settings(folder, dataset_name=f"{folder}/none.jsonl", output_dir="", zero_stage=2)
    plan = job.must_run([f"--plan", "--config_file", config, "--world-size", "4096", "--ranks-per-host=8"])
    print(f"a plan took {time.monotonic() - start:.1f} s")
    for line in ("Memory of 4096 rank(s), 8 on each host", "teacher's weights", "student's weights", "optimizer's moments",
                 "gradients", "activations", "communicator", "lanes", "a host", "of it in shared memory"):
        job.check(line in plan, f"no '{line}' in\n{plan}")
    job.check(gib("optimizer's moments", plan) < 0.001, plan)
    launched = job.must_run(["--plan", "--config_file", config], ranks=2)
    job.check(launched.count("Memory of 2 rank(s), 2 on each host") == 1, launched)
    print("ok: plans of other jobs than this one")


def check_price(folder):
    """Hours and price of all steps, on a machine by its name and as measured; without one, of each that there is."""
    config = settings(folder, max_steps=150000)
    plan = job.must_run(["--plan", "--config_file", config, "--instance", "g5.2xlarge", "--seconds_per_step", "0.6"])
    job.check("Memory of 1 rank(s), 1 on each host, on GPUs" in plan, plan)
    job.check("a GPU of a g5.2xlarge has " in plan, plan)
    job.check("150,000 steps x 0.6 s = 25.0 hours; x $1.212 an hour = $30.30" in plan, plan)
    plan = job.must_run(["--plan", "--config_file", config])
    for line in ("On CPUs like this one: 150,000 steps x ", "p5en.48xlarge", "fits of 24 GB"):
        job.check(line in plan, f"no '{line}' in\n{plan}")
    print("ok: time and price")


def check_refusals(folder):
    config = settings(folder)
    for arguments, expected in [
            (["--plan", "--world_size", "0"], "--world_size: must be at least 1"),
            (["--plan", "--world_size", "many"], "--world_size"),
            (["--plan", "--world_size", "6", "--ranks_per_host", "4"], "no multiple of ranks_per_host 4"),
            (["--world_size", "6"], "--world_size and --ranks_per_host go with --plan"),
            (["--plan", "--student_model", f"{folder}/none"], "none/config.json"),
            (["--plan", "--instance", "g5.huge"], "there is no 'g5.huge'; there are g4dn.xlarge"),
            (["--plan", "--instances", f"{folder}/none.yaml"], "none.yaml"),
            (["--plan", "--student_model", ""], "student_model is missing")]:
        code, output = job.run(["--config_file", config, *arguments])
        job.check(code == 2 and re.search(f"error: .*{expected}|{expected}", output), f"{arguments}: {code}\n{output}")
        job.check("terminate" not in output, output)
    print("ok: refusals")


def main():
    folder = workspace()
    check_refusals(folder)
    check_plan_of_a_large_job(folder)
    check_price(folder)
    check_runs(folder)


main()
