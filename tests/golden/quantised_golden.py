"""Models whose weights are quantised, each beside the numbers that they stand for: quantised_golden.py FP8_FOLDER GGUF_FOLDER MXFP4_FOLDER;
quantised_golden.py GGUF_FOLDER opens what the C++ test saved of the second.

FP8_FOLDER/NAME/quantised is a folder as engines publish it, FP8_FOLDER/NAME/numbers the same model with torch's dequantised
weights in float32. FP8_FOLDER/all.safetensors: every number of eight bits, and its value in float32. GGUF_FOLDER: gguf_golden.py.
MXFP4_FOLDER/NAME: as FP8's, and golden.safetensors, input_ids [B, T] and the logits [B, T, V] that transformers has of the quantised folder, in float32.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.gguf.dequant import dequantize
from transformers.integrations.gguf.reader import GgufHeader, load_gguf_state_dict
from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

import gguf_golden
from gguf_golden import BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0

SIZES = dict(vocab_size=61, hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=8, max_position_embeddings=64)
COMPRESSED = {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"], "kv_cache_scheme": None,
              "quantization_status": "compressed"}


def model_of(kind, **fields):
    names = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma2": "Gemma2", "gemma3_text": "Gemma3Text", "phi3": "Phi3"}
    config = getattr(transformers, f"{names[kind]}Config")
    model = getattr(transformers, f"{names[kind].removesuffix('Text')}ForCausalLM")(config(**{**SIZES, **fields}))
    for name, p in model.named_parameters():
        with torch.no_grad():
            p.copy_(0.2 * torch.randn_like(p) + ("norm" in name))
    return model.to(torch.bfloat16)


def is_quantised(name):
    return name.endswith("_proj.weight")


def group(strategy, **more):
    weights = {"type": "float", "num_bits": 8, "symmetric": True, "strategy": strategy, **more}
    return {"quantization_config": {**COMPRESSED, "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}}


def expanded(scales, shape, block):
    """A scale for each element."""
    rows, columns = block
    return scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[: shape[0], : shape[1]]


def quantise(weight, block, scale_type, dtype):
    """Eight-bit numbers and the scale of each block of rows and columns."""
    rows, columns = ((weight.shape[i] if size is None else size) for i, size in enumerate(block))
    tall, wide = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    padded = torch.zeros(tall * rows, wide * columns)
    padded[: weight.shape[0], : weight.shape[1]] = weight
    largest = padded.view(tall, rows, wide, columns).abs().amax((1, 3))
    scales = (largest / torch.finfo(dtype).max).to(scale_type)
    each = expanded(scales, weight.shape, (rows, columns))
    small = (weight.float() / each.float()).clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).to(dtype)
    return small, scales, small.to(torch.float32) * each.to(torch.float32)


# name: (model, config.json's fields, block, type of the scales, suffix of their name, their shape, type of the weights)
FP8 = {
    "tensor": ("llama", group("tensor"), (None, None), torch.bfloat16, "_scale", lambda s: s.view(1), torch.float8_e4m3fn),
    "channel": ("llama", group("channel"), (1, None), torch.bfloat16, "_scale", lambda s: s, torch.float8_e4m3fn),
    "channel_float32": ("qwen2", group("channel"), (1, None), torch.float32, "_scale", lambda s: s, torch.float8_e4m3fn),
    "compressed_block": ("qwen2", group("block", block_structure=[16, 32]), (16, 32), torch.float32, "_scale", lambda s: s, torch.float8_e4m3fn),
    "deepseek": ("llama", {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 16], "activation_scheme": "dynamic"}},
                 (16, 16), torch.float32, "_scale_inv", lambda s: s, torch.float8_e4m3fn),
    "static_e5m2": ("qwen2", {"quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}}, (None, None), torch.float32, "_scale",
                    lambda s: s.view(()), torch.float8_e5m2),
}


def save_numbers(model, numbers, folder):
    model.float().load_state_dict(numbers)
    model.save_pretrained(folder)


def write_fp8(folder, kind, fields, block, scale_type, suffix, shaped, dtype):
    model = model_of(kind)
    model.save_pretrained(folder / "quantised")
    stored, numbers = {}, {}
    for name, weight in model.state_dict().items():
        stored[name], numbers[name] = weight, weight.float()
        if not is_quantised(name):
            continue
        stored[name], scales, numbers[name] = quantise(weight, block, scale_type, dtype)
        stored[name + suffix] = shaped(scales).contiguous()
        stored[name.removesuffix("weight") + "input_scale"] = torch.ones(1)
    if fields["quantization_config"].get("activation_scheme") == "static":
        stored["model.layers.0.self_attn.k_scale"] = torch.ones(())
    save_file(stored, folder / "quantised" / "model.safetensors", {"format": "pt"})
    config = folder / "quantised" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | fields, indent=2))
    save_numbers(model, numbers, folder / "numbers")


def write_all(path):
    """Every number that eight bits hold, but for those that are none."""
    tensors = {}
    for name, dtype in {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e8m0": torch.float8_e8m0fnu}.items():
        small = torch.arange(256, dtype=torch.uint8).view(dtype)
        small = small.view(torch.uint8)[~small.float().isnan()].view(dtype)
        tensors |= {name: small, name + ".values": small.float()}
    save_file(tensors, path)


K_SIZES = dict(hidden_size=256, intermediate_size=512, head_dim=64, num_attention_heads=4, num_key_value_heads=2)
MORE = dict(hidden_size=64, intermediate_size=96)
PHI = dict(MORE, head_dim=16, pad_token_id=None, bos_token_id=None, eos_token_id=None, max_position_embeddings=64, original_max_position_embeddings=64)
# name: (model, its config's fields, the types of its matrices in the order of the file, parts)
GGUF = {
    "q8_0": ("llama", dict(hidden_size=64, intermediate_size=96, head_dim=16, rms_norm_eps=1e-5), [Q8_0], 1),
    "q4_k_m": ("llama", dict(K_SIZES, tie_word_embeddings=True, num_hidden_layers=1), [Q6_K, Q4_K, Q4_K, Q5_K], 1),
    "small": ("qwen2", dict(hidden_size=64, intermediate_size=96, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True,
                            rope_parameters={"rope_type": "default", "rope_theta": 1e6}), [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0], 1),
    "parts": ("llama", dict(hidden_size=64, intermediate_size=96, head_dim=16), [F16, BF16, F32], 3),
    "mistral": ("mistral", dict(MORE, head_dim=16, sliding_window=None), [Q8_0], 1),
    "mistral_window_with_config": ("mistral", dict(MORE, head_dim=16, sliding_window=5), [Q8_0], 1),
    "qwen3": ("qwen3", dict(MORE, head_dim=32, tie_word_embeddings=True), [Q8_0], 1),
    "qwen3_yarn": ("qwen3", dict(MORE, head_dim=8, rope_parameters={"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "beta_fast": 16.0,
                                                                   "original_max_position_embeddings": 16}), [F16, Q4_0], 1),
    "gemma2": ("gemma2", dict(MORE, head_dim=32, query_pre_attn_scalar=32, sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                              num_hidden_layers=3), [Q8_0], 1),
    "gemma2_parts": ("gemma2", dict(MORE, head_dim=16, query_pre_attn_scalar=16, tie_word_embeddings=False), [F32, BF16, Q5_0], 2),
    "gemma3": ("gemma3_text", dict(MORE, head_dim=32, query_pre_attn_scalar=32, sliding_window=6, num_hidden_layers=7), [Q8_0], 1),
    "gemma3_linear": ("gemma3_text", dict(MORE, head_dim=16, query_pre_attn_scalar=16, sliding_window=4, num_hidden_layers=6, rope_parameters={
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}), [F32, Q8_0], 1),
    "phi3": ("phi3", dict(PHI, sliding_window=5), [Q8_0], 1),
    "phi3_part": ("phi3", dict(PHI, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.75}),
                  [Q4_0, F16], 1),
    "phi3_long": ("phi3", dict(PHI, original_max_position_embeddings=8, sliding_window=40, rope_parameters={
        "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 8, "short_factor": [1.0, 1.125, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0],
        "long_factor": [1.0, 1.5, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0]}), [Q8_0], 2),
}


def values_of(path, tensors):
    """{name in the file: float32}, by transformers' reader of GGUF where it reads these types."""
    five = {name: gguf_golden.five_bits(data, kind) for name, (_, kind, data) in tensors.items() if kind in (Q5_0, Q5_1)}
    path.write_bytes(gguf_golden.gguf({"general.architecture": "llama"}, {name: tensor for name, tensor in tensors.items() if name not in five}))
    header = GgufHeader.from_file(str(path))
    read = load_gguf_state_dict(header)
    values = {}
    for name, (shape, kind, _) in tensors.items():
        if name in five:
            values[name] = torch.from_numpy(five[name])
        else:
            raw = read[name][...]
            values[name] = dequantize(raw, kind) if kind in gguf_golden.BLOCKS and kind not in (F32, F16, BF16) else raw.float()
        values[name] = values[name].reshape(shape)
    path.unlink()
    return values


def with_halves_apart(weight, heads):
    """Undoes what llama.cpp's converter does to a llama's queries and keys."""
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(folder, kind, fields, types, parts):
    model = model_of(kind, **fields)
    config, generator = model.config, np.random.default_rng(len(types))
    (folder / "quantised").mkdir(parents=True)
    tensors, matrices, names = {}, 0, [name for name in model.state_dict() if not (config.tie_word_embeddings and name == "lm_head.weight")]
    for name in names:
        shape = tuple(model.state_dict()[name].shape)
        matrices += len(shape) > 1
        type_ = types[(matrices - 1) % len(types)] if len(shape) > 1 else F32
        tensors[gguf_golden.name_in_file(name, kind)] = (shape, type_, gguf_golden.random_data(shape, type_, generator))
    values = values_of(folder / "quantised" / "all.gguf", tensors)
    numbers = {name: values[gguf_golden.name_in_file(name, kind)] for name in names}
    for name in names:
        if "gemma" in kind and name.endswith("norm.weight"):
            numbers[name] = numbers[name] - 1  # the converter adds it
        if kind in ("llama", "mistral") and (".q_proj" in name or ".k_proj" in name):
            heads = config.num_attention_heads if ".q_proj" in name else config.num_key_value_heads
            numbers[name] = with_halves_apart(numbers[name], heads).contiguous()
    if config.tie_word_embeddings:
        numbers["lm_head.weight"] = numbers["model.embed_tokens.weight"]
    tensors |= {name: (factors.shape, F32, factors.tobytes()) for name, factors in gguf_golden.rope_tensors(config).items()}
    order = list(tensors)
    for part in range(parts):
        file = f"tiny-{part + 1:05}-of-{parts:05}.gguf" if parts > 1 else "tiny.gguf"
        metadata = gguf_golden.metadata_of(config) if part == 0 else {"split.no": part}
        (folder / "quantised" / file).write_bytes(gguf_golden.gguf(metadata, {name: tensors[name] for name in order[part::parts]}))
    save_numbers(model, numbers, folder / "numbers")
    write_logits(folder)
    if folder.name.endswith("with_config"):
        shutil.copy(folder / "numbers" / "config.json", folder / "quantised")


def logits_of(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(input_ids=ids).logits


def write_logits(folder):
    """logits.safetensors: what transformers computes with the numbers of FOLDER/numbers."""
    ids = torch.randint(SIZES["vocab_size"], (2, 23))
    logits = logits_of(folder / "numbers", ids)
    assert logits.isfinite().all(), folder
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "logits.safetensors")


def check_saved(folder):
    for name in GGUF:
        golden = load_file(folder / name / "logits.safetensors")
        logits = logits_of(folder / name / "saved", golden["input_ids"])
        error = ((logits - golden["logits"]).norm() / golden["logits"].norm()).item()
        assert error < 1e-4, f"{name}: logits of what was saved are off by {error}"
    print(f"{len(GGUF)} models that were saved are opened with equal logits")


MXFP4_SIZES = dict(vocab_size=61, hidden_size=96, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                   num_local_experts=4, num_experts_per_tok=2, sliding_window=6, max_position_embeddings=128, pad_token_id=60, eos_token_id=59)
# As gpt-oss-20b's config.json has them.
ROPE = {"rope_theta": 150000, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "original_max_position_embeddings": 32,
                                               "rope_type": "yarn", "truncate": False}}
PUBLISHED = {"experts_per_token": 2, "initial_context_length": 32, "output_router_logits": False, "router_aux_loss_coef": 0.9, "swiglu_limit": 7.0,
             "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert":
                                     ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}
# name: how many files
MXFP4 = {"whole": 1, "parts": 2}


def pack_mxfp4(weight):
    """Blocks and scales of [experts, rows, columns]: of 32 numbers the largest lies between 4 and 8 times the scale, and each takes the nearest code."""
    groups = weight.reshape(*weight.shape[:2], -1, 32)
    exponents = groups.abs().amax(-1).log2().floor() - 2
    magnitudes = (groups.abs() * torch.exp2(-exponents).unsqueeze(-1)).unsqueeze(-1)
    codes = (magnitudes - torch.tensor(FP4_VALUES[:8])).abs().argmin(-1) + 8 * (groups < 0)
    return (codes[..., 0::2] + 16 * codes[..., 1::2]).to(torch.uint8), (exponents + 127).to(torch.uint8)


def is_expert(name):
    return name.endswith(("experts.gate_up_proj", "experts.down_proj"))


def write_parts(folder, stored, parts):
    """Blocks and their scales lie in different files where there are several."""
    if parts == 1:
        return save_file(stored, folder / "model.safetensors", {"format": "pt"})
    (folder / "model.safetensors").unlink()
    files = {name: f"model-{i % parts + 1:05}-of-{parts:05}.safetensors" for i, name in enumerate(stored)}
    for file in set(files.values()):
        save_file({name: value for name, value in stored.items() if files[name] == file}, folder / file, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def write_mxfp4(folder, parts):
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**MXFP4_SIZES))
    for name, p in model.named_parameters():
        with torch.no_grad():
            p.copy_(0.2 * torch.randn_like(p) + ("norm" in name))
    model.to(torch.bfloat16).save_pretrained(folder / "quantised")
    stored, numbers = {}, {}
    for name, weight in model.state_dict().items():
        numbers[name] = weight.float()
        if not is_expert(name):
            stored[name] = weight.contiguous()
            continue
        blocks, scales = pack_mxfp4(weight.float().transpose(1, 2))
        stored |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        numbers[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        assert (numbers[name] - weight.float()).abs().max() < 0.3 * weight.abs().max(), "it is packed in another order"
    write_parts(folder / "quantised", stored, parts)
    path = folder / "quantised" / "config.json"
    config = {name: value for name, value in json.loads(path.read_text()).items() if name != "rope_parameters"}
    path.write_text(json.dumps(config | ROPE | PUBLISHED, indent=2))
    save_numbers(model, numbers, folder / "numbers")
    of_numbers = {name: value for name, value in PUBLISHED.items() if name != "quantization_config"}
    (folder / "numbers" / "config.json").write_text(json.dumps(config | ROPE | of_numbers, indent=2))
    read = transformers.AutoModelForCausalLM.from_pretrained(folder / "quantised", dtype=torch.float32, attn_implementation="eager",
                                                             quantization_config=transformers.Mxfp4Config(dequantize=True))
    for name, value in read.state_dict().items():
        assert torch.equal(value, numbers[name]), name
    ids = torch.randint(0, MXFP4_SIZES["vocab_size"] - 2, (3, 40))
    with torch.no_grad():
        save_file({"input_ids": ids, "logits": read(ids).logits.contiguous()}, folder / "golden.safetensors")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if len(sys.argv) == 2:
        return check_saved(pathlib.Path(sys.argv[1]))
    fp8, gguf, mxfp4 = map(pathlib.Path, sys.argv[1:])
    for folder in (fp8, gguf, mxfp4):
        shutil.rmtree(folder, ignore_errors=True)
    for name, case in FP8.items():
        write_fp8(fp8 / name, *case)
    write_all(fp8 / "all.safetensors")
    for name, case in GGUF.items():
        write_gguf(gguf / name, *case)
    for name, parts in MXFP4.items():
        write_mxfp4(mxfp4 / name, parts)
    print(f"{len(FP8)} models in {fp8}, {len(GGUF)} in {gguf}, {len(MXFP4)} in {mxfp4}")


if __name__ == "__main__":
    main()
