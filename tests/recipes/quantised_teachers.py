"""distill_llm with teachers as they are published: GGUF, FP8 and MXFP4 folders teach as the numbers that they stand for do, on one rank and shared by two;
--plan and --generate take them, and a student must not be one."""
import itertools
import json
import math
import os
import random
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
SHAPE = {"embedding_length": 32, "feed_forward_length": 64, "block_count": 2, "attention.head_count": 4, "attention.head_count_kv": 2}


def read(folder):
    """{name: (shape, [floats])} of a float32 safetensors file."""
    tensors = job.read_safetensors(f"{folder}/model.safetensors")
    return {name: (shape, list(struct.unpack(f"<{len(data) // 4}f", data))) for name, (shape, data) in tensors.items()}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def q8_0(values):
    """The blocks' bytes, and the numbers that they stand for."""
    data, numbers = b"", []
    for at in range(0, len(values), 32):
        block = values[at : at + 32]
        scale = struct.pack("<e", max(map(abs, block)) / 127)
        d = struct.unpack("<e", scale)[0]
        q = [max(-127, min(127, round(value / d))) for value in block]
        data += scale + struct.pack("<32b", *q)
        numbers += [d * one for one in q]
    return data, numbers


def write_gguf(path, tensors):
    """A Qwen2 of SHAPE with matrices of Q8_0; returns the numbers."""
    metadata = [text("general.architecture") + struct.pack("<I", 8) + text("qwen2"),
                text("general.base_model.0.repo_url") + struct.pack("<I", 8) + text("org/original")]
    metadata += [text(f"qwen2.{key}") + struct.pack("<II", 4, value) for key, value in SHAPE.items()]
    metadata.append(text("qwen2.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-6))
    table, data, numbers = b"", b"", {}
    for name, (shape, values) in tensors.items():
        part, suffix = name.rsplit(".", 1)
        in_file = NAMES[part] if part in NAMES else f"blk.{part.split('.')[2]}.{NAMES[part.split('.', 3)[3]]}"
        is_matrix = len(shape) > 1
        stored, numbers[name] = q8_0(values) if is_matrix else (struct.pack(f"<{len(values)}f", *values), values)
        table += text(f"{in_file}.{suffix}") + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)) + struct.pack("<IQ", 8 if is_matrix else 0, len(data))
        data += stored + bytes(-len(stored) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata) + table
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)
    return {name: (tensors[name][0], values) for name, values in numbers.items()}


def write_folder(folder, tensors, quantisation):
    """tensors: {name: (type, shape, bytes)}. config.json gets the quantization_config."""
    header, data = {}, b""
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    encoded = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded + data)
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({**config, "quantization_config": quantisation}, file)


def floats(shape, values):
    return "F32", shape, struct.pack(f"<{len(values)}f", *values)


def write_fp8(folder, tensors, seed=3):
    """Projections of one sign, exponent and two bits of mantissa each, with a scale for each block of 16 x 16; returns the numbers."""
    rng, stored, numbers = random.Random(seed), {}, dict(tensors)
    for name, (shape, values) in tensors.items():
        if "_proj.weight" not in name:
            stored[name] = floats(shape, values)
            continue
        rows, columns = shape
        codes = [rng.randrange(2) << 7 | rng.randrange(4, 8) << 3 | rng.randrange(8) for _ in values]
        scales = [2.0 ** rng.randrange(-4, -1) for _ in range(-(-rows // 16) * -(-columns // 16))]
        stored[name] = ("F8_E4M3", shape, bytes(codes))
        stored[f"{name}_scale_inv"] = floats([-(-rows // 16), -(-columns // 16)], scales)

        def number(i):
            sign, exponent, mantissa = codes[i] >> 7, codes[i] >> 3 & 15, codes[i] & 7
            return (-1) ** sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7) * scales[i // columns // 16 * -(-columns // 16) + i % columns // 16]

        numbers[name] = (shape, [number(i) for i in range(len(values))])
    write_folder(folder, stored, {"quant_method": "fp8", "weight_block_size": [16, 16], "activation_scheme": "dynamic"})
    return numbers


def make_gpt_oss(folder, seed, hidden=32, layers=2, heads=4, kv_heads=2, size=32, experts=4):
    """A gpt-oss folder with random weights and the example's tokenizer."""
    vocab, rng = job.make_shape(folder, hidden, layers, heads, kv_heads, size, vocab=None), random.Random(seed)
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    config |= {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "head_dim": hidden // heads, "num_local_experts": experts,
               "num_experts_per_tok": 2, "sliding_window": 8, "attention_bias": True, "tie_word_embeddings": False,
               "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}{name}.weight": [hidden] for name in ("input_layernorm", "post_attention_layernorm")}
        wide, narrow = hidden, hidden // heads * kv_heads
        for name, rows in (("q_proj", wide), ("k_proj", narrow), ("v_proj", narrow), ("o_proj", wide)):
            shapes |= {f"{prefix}self_attn.{name}.weight": [rows, hidden], f"{prefix}self_attn.{name}.bias": [rows]}
        mlp = {"router.weight": [experts, hidden], "router.bias": [experts], "experts.gate_up_proj": [experts, hidden, 2 * size],
               "experts.gate_up_proj_bias": [experts, 2 * size], "experts.down_proj": [experts, size, hidden], "experts.down_proj_bias": [experts, hidden]}
        shapes |= {f"{prefix}self_attn.sinks": [heads], **{f"{prefix}mlp.{name}": shape for name, shape in mlp.items()}}
    job.write_safetensors(f"{folder}/model.safetensors",
                          {name: (shape, [rng.gauss(1 if "norm" in name else 0, 0.08) for _ in range(math.prod(shape))]) for name, shape in shapes.items()})


def write_mxfp4(folder, tensors, seed=4):
    """Experts of random numbers of four bits, with a scale for 32 of them; returns the numbers."""
    magnitudes, rng, stored, numbers = (0, 0.5, 1, 1.5, 2, 3, 4, 6), random.Random(seed), {}, dict(tensors)
    for name, (shape, values) in tensors.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            stored[name] = floats(shape, values)
            continue
        experts, columns, rows = shape  # the file's rows and columns
        scales = bytes(rng.randrange(121, 124) for _ in range(len(values) // 32))
        blocks = bytes(rng.randrange(256) for _ in range(len(values) // 2))
        stored |= {f"{name}_blocks": ("U8", [experts, rows, columns // 32, 16], blocks), f"{name}_scales": ("U8", [experts, rows, columns // 32], scales)}

        def number(expert, column, row):
            i = (expert * rows + row) * columns + column
            code = blocks[i // 2] >> 4 * (i % 2) & 15
            return (-1) ** (code >> 3) * magnitudes[code & 7] * 2.0 ** (scales[i // 32] - 127)

        numbers[name] = (shape, [number(*at) for at in itertools.product(range(experts), range(columns), range(rows))])
    write_folder(folder, stored, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})
    return numbers


def losses(out):
    with open(f"{out}/metrics.jsonl", encoding="utf-8") as file:
        return [record["loss"] for record in map(json.loads, file) if "loss" in record and "train_runtime" not in record]


def memory(arguments):
    """The lines of a plan that say what memory a run takes, but for the process by itself and the sums with it, which are measured."""
    lines = [line for line in job.must_run(arguments).splitlines() if re.match(r" +[\d.]+ GiB ", line)]
    return [line for line in lines if not re.search("program and libraries|a rank|a host", line)]


def check_kind(folder, kind, write, original="teacher", no_student="only a teacher's may be"):
    quantised, numbers = f"{folder}/{kind}", f"{folder}/{kind}-numbers"
    for copy in (quantised, numbers):
        shutil.copytree(f"{folder}/{original}", copy)
    os.remove(f"{numbers}/model.safetensors")
    job.write_safetensors(f"{numbers}/model.safetensors", write(quantised, read(f"{folder}/{original}")))
    found = {}
    for name, teacher, ranks, more in (("as numbers", numbers, 1, {}), ("quantised", quantised, 1, {}), ("two ranks", numbers, 2, {}),
                                       ("two ranks share it", quantised, 2, {"shard_teacher": True})):
        out = f"{folder}/{kind}-{name.replace(' ', '-')}"
        job.must_run(["--config_file", job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=teacher, alpha=1,
                                                  student_model=f"{folder}/student", output_dir=out, max_steps=4, **more)], ranks=ranks)
        found[name] = losses(out)
    job.check(len(found["quantised"]) == 4 and found["quantised"] == found["as numbers"], f"{kind}: {found}")
    job.check(found["two ranks share it"] == found["two ranks"], f"{kind}: {found}")
    plans = [memory(["--plan", "--teacher_model", teacher, "--student_model", f"{folder}/student"]) for teacher in (quantised, numbers)]
    job.check(plans[0] == plans[1] and len(plans[0]) > 5, f"{kind}: its plan is not that of the numbers:\n{plans[0]}\n{plans[1]}")
    answers = [job.must_run(["--generate", model, "--prompt", "count the stones", "--max_new_tokens", "8", "--bf16", "false"]) for model in (quantised, numbers)]
    job.check(answers[0].splitlines()[-1] == answers[1].splitlines()[-1], f"{kind}: {answers}")
    for plan in ([], ["--plan"]):
        code, output = job.run(["--config_file", job.config(folder, dataset_name=f"{folder}/chat.jsonl", alpha=0, student_model=quantised,
                                                            output_dir=f"{folder}/none"), *plan])
        job.check(code == 2 and "student_model: " in output and no_student in output, f"{kind} as a student: {code}\n{output}")
    print(f"ok: {kind}")


def gguf(folder, tensors):
    os.remove(f"{folder}/model.safetensors")
    os.remove(f"{folder}/config.json")
    return write_gguf(f"{folder}/teacher.gguf", tensors)


def check_no_tokenizer(folder):
    shutil.copytree(f"{folder}/gguf", f"{folder}/bare")
    os.remove(f"{folder}/bare/tokenizer.json")
    config = job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/bare", student_model=f"{folder}/student", output_dir=f"{folder}/none")
    data = ["--dataset_name", f"{folder}/chat.jsonl"]
    for program, arguments, option in (("distill_llm", ["--config_file", config], "teacher_model: "),
                                       ("distill_llm", ["--generate", f"{folder}/bare", "--prompt", "count"], "generate: "),
                                       ("evaluate_llm", [*data, f"bare={folder}/bare"], ""),
                                       ("evaluate_llm", [*data, "--teacher_model", f"{folder}/bare", f"student={folder}/student"], "")):
        code, output = job.run(arguments, program=program)
        message = f"{option}{folder}/bare has no tokenizer beside teacher.gguf"
        job.check(code == 2 and message in output and "copy tokenizer.json and tokenizer_config.json of org/original" in output,
                  f"{program} {arguments}: {code}\n{output}")
    print("ok: a GGUF file without a tokenizer beside it")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=20)
    check_kind(folder, "gguf", gguf)
    check_kind(folder, "fp8", write_fp8)
    make_gpt_oss(f"{folder}/gpt_oss", seed=5)
    check_kind(folder, "mxfp4", write_mxfp4, original="gpt_oss", no_student="can be a teacher here and no student")
    check_no_tokenizer(folder)


main()
