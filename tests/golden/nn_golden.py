"""Tiny random models by transformers, with what they compute: nn_golden.py DECODERS_FOLDER ENCODERS_FOLDER HEADS_FOLDER

Encoders: encoder_golden.py, and with other heads: heads_golden.py.
DECODERS_FOLDER/NAME/model is a folder that LoadDecoder reads; DECODERS_FOLDER/NAME/golden.safetensors holds, in float32:
  input_ids [B, T], logits [B, T, V], grad.PARAMETER     plain rows; the gradient of the summed next-token cross-entropy
  hidden_states [L + 1, B, T, H]                          of the embeddings and each layer
  packed_ids [B, T], packed_starts [B, S] (-1: no more), packed_logits [B, T, V] (each document on its own, zero in the
  padding), packed_grad.PARAMETER                         several documents a row
  prompts [B, T], answers [B, 64]                         greedy generation
Parameters are called as in the files: transformers may keep experts in other shapes than it saves.
"""
import json
import pathlib
import shutil
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

import encoder_golden
import heads_golden

SIZES = dict(vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=128)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)


def qwen2(**fields):
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{**SIZES, "num_key_value_heads": 2, **fields}))


def llama(**fields):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, "num_key_value_heads": 2, **fields}))


def decoder(family, **fields):
    config = getattr(transformers, f"{family}Config")(**{**SIZES, "num_key_value_heads": 2, "pad_token_id": None,
                                                         "bos_token_id": None, "eos_token_id": None, **fields})
    return getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")(config)


def rope(kind, **fields):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1000.0, **fields}}


def longrope(original):
    return dict(max_position_embeddings=128, original_max_position_embeddings=original,
                **rope("longrope", partial_rotary_factor=0.75, original_max_position_embeddings=original,
                       short_factor=[1.0, 1.1, 1.3], long_factor=[1.5, 3.0, 7.0]))


GEMMA = dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=6, num_hidden_layers=4)
TWO_ROPES = dict(rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
                                  "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0}})
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, num_hidden_layers=3)
# torch's grouped products take no odd sizes.
EAGER = dict(attn_implementation="eager", experts_implementation="eager")
# Multiples of no vector's width; ODD_HEADS for the families whose heads need not fill the hidden size.
ODD = dict(vocab_size=97, hidden_size=30, intermediate_size=41, num_attention_heads=3, num_key_value_heads=1)
ODD_HEADS = {**ODD, "hidden_size": 33, "head_dim": 10}
ODD_EXPERTS = dict(num_experts=5, num_experts_per_tok=3, moe_intermediate_size=7, tie_word_embeddings=True)
# Several files, whose tensors have all three types.
SHARDS = dict(max_shard_size="20KB", mixes=True)

# name, which begins with the model_type: (model, how it is saved)
CASES = {
    "qwen2_tied": (lambda: qwen2(tie_word_embeddings=True), {}),
    "qwen2_untied": (lambda: qwen2(rms_norm_eps=1e-3), {}),
    "qwen2_theta_older": (lambda: qwen2(rope_parameters={"rope_type": "default", "rope_theta": 1e6}), {"older": True}),
    "llama_grouped": (lambda: llama(num_key_value_heads=1), {}),
    "llama_all_heads": (lambda: llama(num_key_value_heads=4, tie_word_embeddings=True), {"older": True}),
    "llama_head_dim": (lambda: llama(head_dim=16), {}),
    "llama3_rope": (lambda: llama(rope_parameters=dict(LLAMA3)), {}),
    "llama3_rope_older": (lambda: llama(rope_parameters=dict(LLAMA3)), {"older": True}),
    "llama_biases": (lambda: llama(attention_bias=True, mlp_bias=True), {}),
    "qwen2_shards": (lambda: qwen2(), SHARDS),
    "qwen2_pad_token": (lambda: qwen2(tie_word_embeddings=True, pad_token_id=7), {}),
    "llama_bfloat16": (lambda: llama(), {"dtype": torch.bfloat16}),
    "llama_shards": (lambda: llama(), SHARDS),
    "llama_odd": (lambda: llama(**ODD), {}),
    "llama_linear_rope": (lambda: llama(**rope("linear", factor=4.0)), {}),
    "llama_dynamic_rope": (lambda: llama(max_position_embeddings=16, **rope("dynamic", factor=2.0)), {}),
    "llama_yarn_rope": (lambda: llama(**rope("yarn", factor=4.0, original_max_position_embeddings=32)), {"older": True}),
    "qwen2_yarn_rope": (lambda: qwen2(**rope("yarn", factor=4.0, original_max_position_embeddings=32, truncate=False,
                                             mscale=0.7, mscale_all_dim=1.1)), {}),
    "qwen2_odd_window": (lambda: qwen2(**ODD, use_sliding_window=True, sliding_window=7,
                                       max_window_layers=1), {}),
    "qwen3_tied_shards": (lambda: decoder("Qwen3", head_dim=16, tie_word_embeddings=True), SHARDS),
    "qwen3_biases": (lambda: decoder("Qwen3", head_dim=8, attention_bias=True), {"older": True}),
    "qwen3_odd_window": (lambda: decoder("Qwen3", **ODD_HEADS, use_sliding_window=True, sliding_window=5,
                                         max_window_layers=1), {}),
    "mistral_window_shards": (lambda: decoder("Mistral", sliding_window=5), SHARDS),
    "mistral_odd_tied": (lambda: decoder("Mistral", **ODD_HEADS, sliding_window=None, tie_word_embeddings=True),
                         {"older": True}),
    "smollm3_tied_shards": (lambda: decoder("SmolLM3", num_hidden_layers=4), SHARDS),
    "smollm3_odd_window": (lambda: decoder("SmolLM3", **ODD, no_rope_layers=[0, 1], use_sliding_window=True,
                                           sliding_window=6, attention_bias=True, mlp_bias=True,
                                           tie_word_embeddings=False), {}),
    "olmo2_shards": (lambda: decoder("Olmo2"), SHARDS),
    "olmo2_odd_tied": (lambda: decoder("Olmo2", **{**ODD, "num_key_value_heads": 3}, attention_bias=True,
                                       tie_word_embeddings=True), {}),
    "phi3_odd_window": (lambda: decoder("Phi3", **ODD, sliding_window=6), {}),
    "phi3_part_tied_shards": (lambda: decoder("Phi3", tie_word_embeddings=True,
                                              **rope("default", partial_rotary_factor=0.5)), SHARDS),
    "phi3_long": (lambda: decoder("Phi3", **longrope(8)), {}),
    "phi3_border": (lambda: decoder("Phi3", **longrope(30)), {}),
    "phi3_short": (lambda: decoder("Phi3", **longrope(100)), {"older": True}),
    "gemma2_tied_shards": (lambda: decoder("Gemma2", **GEMMA, final_logit_softcapping=3.0, attn_logit_softcapping=2.0),
                           SHARDS),
    "gemma2_odd": (lambda: decoder("Gemma2", **{**GEMMA, **ODD_HEADS}, tie_word_embeddings=False, pad_token_id=0,
                                   attn_logit_softcapping=None, attention_bias=True), {"older": True}),
    "gemma3_text_tied_shards": (lambda: decoder("Gemma3Text", **GEMMA, sliding_window_pattern=2, **TWO_ROPES), SHARDS),
    "gemma3_text_odd": (lambda: decoder("Gemma3Text", **{**GEMMA, **ODD_HEADS}, sliding_window_pattern=3, **TWO_ROPES,
                                        tie_word_embeddings=False, final_logit_softcapping=4.0), {"older": True}),
    "qwen2_moe_shards": (lambda: decoder("Qwen2Moe", **EXPERTS, shared_expert_intermediate_size=20, qkv_bias=True),
                         SHARDS),
    "qwen2_moe_odd_tied": (lambda: decoder("Qwen2Moe", **ODD, **ODD_EXPERTS, shared_expert_intermediate_size=11), {}),
    "qwen3_moe_shards": (lambda: decoder("Qwen3Moe", **EXPERTS, head_dim=8, norm_topk_prob=True, mlp_only_layers=[1]),
                         SHARDS),
    "qwen3_moe_odd_tied": (lambda: decoder("Qwen3Moe", **ODD_HEADS, **ODD_EXPERTS), {}),
    "gpt_oss_shards": (lambda: decoder("GptOss", head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                                       sliding_window=6, intermediate_size=20), SHARDS),
    "gpt_oss_odd_tied": (lambda: decoder("GptOss", **ODD_HEADS, num_local_experts=5, num_experts_per_tok=3,
                                         sliding_window=6, tie_word_embeddings=True), {}),
}


def randomise(model):
    """transformers' own initialisation is too small to tell much apart, and has no biases."""
    for name, p in model.named_parameters():
        with torch.no_grad():
            scale = "norm" in name.lower() and name.endswith("weight") and "gemma" not in model.config.model_type
            p.copy_(0.2 * torch.randn_like(p) + (1 if scale else 0))


def to_older_form(path):
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
        config["sliding_window_pattern"] = config.pop("_sliding_window_pattern")
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    path.write_text(json.dumps(config, indent=2))


def mix_types(folder):
    """One tensor after the other in another type, as some published files have norms in float32."""
    types, count = (torch.float32, torch.bfloat16, torch.float16), 0
    for path in sorted(folder.glob("*.safetensors")):
        tensors = {}
        for name, value in load_file(path).items():
            tensors[name] = value.to(types[count % len(types)])
            count += 1
        save_file(tensors, path, {"format": "pt"})


def save(model, folder, older=False, dtype=torch.float32, max_shard_size="1GB", mixes=False):
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    if mixes:
        mix_types(folder)
    if older:
        to_older_form(folder / "config.json")
    words = {f"w{i}": i for i in range(SIZES["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)


def next_token_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="sum")


def as_saved(name, gradient):
    """Names and values of a gradient, for the parameters of the file."""
    if not name.endswith("experts.gate_up_proj") and not name.endswith("experts.down_proj") or "bias" in name:
        return {name: gradient}
    path, kind = name.rsplit(".", 1)
    parts = {"down_proj": [gradient]} if kind == "down_proj" else dict(
        zip(("gate_proj", "up_proj"), ([part] for part in gradient.chunk(2, dim=1))))
    return {f"{path}.{expert}.{part}.weight": value[expert] for part, (value,) in parts.items()
            for expert in range(gradient.shape[0])}


def gradients(model, prefix):
    found = {}
    for name, p in model.named_parameters():
        gradient = p.grad if p.grad is not None else torch.zeros_like(p)
        saved = {name: gradient} if model.config.model_type == "gpt_oss" else as_saved(name, gradient)
        found |= {f"{prefix}.{key}": value.clone() for key, value in saved.items()}
    model.zero_grad()
    return found


def run(model, ids):
    """The logits. "Dynamic" ropes remember the longest text that they have seen: here each text stands alone."""
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model(ids).logits


def packed(model, vocabulary):
    """Rows of several documents; every document goes through the model alone."""
    starts = [[0, 7, 8, 19, 24], [0, 24], [0, 11, 20, 20], [0, 1, 12, 23]]
    ids = torch.randint(0, vocabulary, (len(starts), 24))
    logits = torch.zeros(*ids.shape, vocabulary)
    loss = 0
    for row, borders in enumerate(starts):
        for begin, end in zip(borders, borders[1:]):
            if begin == end:
                continue
            document = ids[row : row + 1, begin:end]
            out = run(model, document)
            logits[row, begin:end] = out[0].detach()
            loss = loss + next_token_loss(out, document)
    loss.backward()
    width = max(map(len, starts))
    padded = torch.tensor([s + [-1] * (width - len(s)) for s in starts])
    return {"packed_ids": ids, "packed_starts": padded, "packed_logits": logits} | gradients(model, "packed_grad")


def golden(model):
    vocabulary = model.config.vocab_size
    ids = torch.randint(0, vocabulary, (3, 40))
    if model.config.pad_token_id is not None:
        ids[0, 3] = model.config.pad_token_id  # transformers gives its row of the embedding no gradient
    logits = run(model, ids)
    next_token_loss(logits, ids).backward()
    with torch.no_grad():
        hidden = torch.stack(model(ids, output_hidden_states=True).hidden_states)
    out = {"input_ids": ids, "logits": logits.detach(), "hidden_states": hidden} | gradients(model, "grad") | packed(model, vocabulary)
    prompts = torch.randint(0, vocabulary, (4, 9))
    run(model, prompts)
    answers = model.generate(prompts, max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=0,
                             attention_mask=torch.ones_like(prompts))
    return out | {"prompts": prompts, "answers": answers[:, prompts.shape[1] :]}


def grid(folder):
    """What of the grid a model stands for."""
    config = json.loads((folder / "config.json").read_text())
    files = [load_file(path) for path in folder.glob("*.safetensors")]
    tensors = {name: value for file in files for name, value in file.items()}
    found = {"untied" if "lm_head.weight" in tensors else "tied"}
    if config["vocab_size"] % 2 and config["intermediate_size"] % 2 and config["num_attention_heads"] % 2:
        found.add("odd sizes")
    if len(files) > 1 and len({value.dtype for value in tensors.values()}) == 3:
        found.add("shards of three types")
    return config["model_type"], found


def check_grid(root):
    """Every family has models of all kinds."""
    families = {}
    for folder in root.glob("*/model"):
        family, found = grid(folder)
        families.setdefault(family, set()).update(found)
    for family, found in families.items():
        missing = {"tied", "untied", "odd sizes", "shards of three types"} - found
        assert not missing, f"no model of {family} with {', '.join(sorted(missing))}"


def main():
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    shutil.rmtree(root, ignore_errors=True)
    for seed, (name, (make, how)) in enumerate(CASES.items()):
        torch.manual_seed(seed)
        folder = root / name / "model"
        model = make()
        randomise(model)
        save(model, folder, **how)
        # Through the saved folder, so that golden values are what transformers makes of these very files.
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **EAGER)
        save_file({k: v.contiguous() for k, v in golden(model).items()}, root / name / "golden.safetensors")
    check_grid(root)
    print(f"{len(CASES)} models in {root}")
    encoder_golden.write(pathlib.Path(sys.argv[2]), randomise, save)
    heads_golden.write(pathlib.Path(sys.argv[3]), randomise, save)


if __name__ == "__main__":
    main()
