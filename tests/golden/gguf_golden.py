"""GGUF files, each beside the numbers that its tensors stand for; for quantised_golden.py, and seeds of the fuzzer.

FOLDER/NAME/quantised has the file, or its parts, and nothing else; FOLDER/NAME/numbers the model as transformers saves it, whose weights
transformers' own reader and formulas made of that file (those of Q5_0 and Q5_1, which it lacks, are below).
"""
import math
import struct

import numpy as np

F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16 = 0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30
# type: elements and bytes of a block, and where its float16 numbers are
BLOCKS = {F32: (1, 4, []), F16: (1, 2, [0]), BF16: (1, 2, []), Q4_0: (32, 18, [0]), Q4_1: (32, 20, [0, 2]), Q5_0: (32, 22, [0]), Q5_1: (32, 24, [0, 2]),
          Q8_0: (32, 34, [0]), Q4_K: (256, 144, [0, 2]), Q5_K: (256, 176, [0, 2]), Q6_K: (256, 210, [208])}
ALIGNMENT = 32
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
GEMMA_NAMES = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
# Of model_type, where they differ.
ARCHITECTURES = {"gemma3_text": "gemma3", "mistral": "llama"}


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(item):
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    kind = value(item[0])[:4]
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(item)) + b"".join(value(one)[4:] for one in item)


def gguf(metadata, tensors):
    """A file's bytes; tensors: {name: (shape, type, data)}, rows first."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + value(item) for key, item in metadata.items())
    data = b""
    for name, (shape, kind, content) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % ALIGNMENT)
    return head + bytes(-len(head) % ALIGNMENT) + data


def random_data(shape, kind, generator):
    """Any bits, but for the floating-point numbers among them, which are of usual size."""
    elements, size, halves = BLOCKS[kind]
    count = int(np.prod(shape)) // elements
    if kind == F32:
        return (1 + 0.2 * generator.standard_normal(count)).astype(np.float32).tobytes()
    if kind == BF16:
        return (generator.standard_normal(count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    blocks = generator.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        blocks[:, at : at + 2] = (0.01 * generator.standard_normal((count, 1))).astype(np.float16).view(np.uint8)
    return blocks.tobytes()


def five_bits(data, kind):
    """As llama.cpp's gguf-py has it: d, m of Q5_1, the fifth bits, the lower four of the first 16 and of the others."""
    blocks = np.frombuffer(data, np.uint8).reshape(-1, BLOCKS[kind][1])
    begin = 4 if kind == Q5_1 else 2
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    high = blocks[:, begin : begin + 4].copy().view(np.uint32) >> np.arange(32, dtype=np.uint32) & 1
    low = blocks[:, begin + 4 :]
    q = np.concatenate([low & 15, low >> 4], 1).astype(np.int32) | high.astype(np.int32) << 4
    if kind == Q5_0:
        return d * (q - 16).astype(np.float32)
    return d * q.astype(np.float32) + blocks[:, 2:4].copy().view(np.float16).astype(np.float32)


def name_in_file(name, model_type="llama"):
    path, suffix = name.rsplit(".", 1)
    names = NAMES | (GEMMA_NAMES if "gemma" in model_type else {})
    if path in names:
        return f"{names[path]}.{suffix}"
    _, _, layer, part = path.split(".", 3)
    return f"blk.{layer}.{names[part]}.{suffix}"


def rope_of(config):
    return config.rope_parameters.get("full_attention", config.rope_parameters)


def own_metadata(config):
    """What llama.cpp's conversion/*.py write for these models beside the sizes."""
    rope, kind = rope_of(config), config.model_type
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if kind in ("llama", "mistral"):
        return {"rope.dimension_count": size, "vocab_size": config.vocab_size}
    if kind == "phi3":
        scaling = {"rope.scaling.attn_factor": attention_factor(config)} if "long_factor" in rope else {}
        return {"rope.dimension_count": int(rope.get("partial_rotary_factor", 1) * config.hidden_size) // config.num_attention_heads,
                "rope.scaling.original_context_length": config.original_max_position_embeddings,
                "attention.sliding_window": config.sliding_window or 0, **scaling}
    known = {"attention.key_length": size, "attention.value_length": size} if kind != "qwen2" else {}
    if "gemma" in kind:
        known["attention.sliding_window"] = config.sliding_window
    if kind == "gemma2":
        known |= {"attn_logit_softcapping": config.attn_logit_softcapping, "final_logit_softcapping": config.final_logit_softcapping}
    if rope["rope_type"] != "default":
        known |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if rope["rope_type"] == "yarn":
        known |= {"rope.scaling.original_context_length": rope["original_max_position_embeddings"], "rope.scaling.yarn_beta_fast": rope["beta_fast"]}
    return known


def attention_factor(config):
    longest, original = config.max_position_embeddings, config.original_max_position_embeddings
    return math.sqrt(1 + math.log(longest / original) / math.log(original))


def rope_tensors(config):
    """{name: float32 numbers} of LongRoPE's factors."""
    rope = rope_of(config)
    return {f"rope_factors_{kind}.weight": np.array(rope[f"{kind}_factor"], np.float32) for kind in ("long", "short") if f"{kind}_factor" in rope}


def metadata_of(config):
    kind = ARCHITECTURES.get(config.model_type, config.model_type)
    known = {"embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size, "block_count": config.num_hidden_layers,
             "context_length": config.max_position_embeddings, "attention.head_count": config.num_attention_heads,
             "attention.head_count_kv": config.num_key_value_heads, "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
             **({"rope.freq_base": float(rope_of(config)["rope_theta"])} if kind != "gemma2" else {}), **own_metadata(config)}
    return {"general.architecture": kind, **{f"{kind}.{key}": item for key, item in known.items()}, "general.name": "Tiny",
            "general.base_model.0.repo_url": "https://hub/org/tiny", "tokenizer.ggml.tokens": [f"w{i}" for i in range(config.vocab_size)],
            "tokenizer.ggml.add_bos_token": False}
