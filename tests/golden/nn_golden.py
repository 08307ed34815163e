"""Tiny random models by transformers, with what they compute: nn_golden.py DECODERS_FOLDER ENCODERS_FOLDER HEADS_FOLDER

Encoders: encoder_golden.py, and with other heads: heads_golden.py.
DECODERS_FOLDER/NAME/model is a folder that LoadDecoder reads; DECODERS_FOLDER/NAME/golden.safetensors holds, in float32:
  input_ids [B, T], logits [B, T, V], grad.PARAMETER     plain rows; the gradient of the summed next-token cross-entropy
  packed_ids [B, T], packed_starts [B, S] (-1: no more), packed_logits [B, T, V] (each document on its own, zero in the
  padding), packed_grad.PARAMETER                         several documents a row
  prompts [B, T], answers [B, 12]                         greedy generation
"""
import json
import pathlib
import shutil
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
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


# name: (model, how it is saved)
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
    "qwen2_sharded": (lambda: qwen2(), {"max_shard_size": "20KB"}),
    "qwen2_pad_token": (lambda: qwen2(tie_word_embeddings=True, pad_token_id=7), {}),
    "llama_bfloat16": (lambda: llama(), {"dtype": torch.bfloat16}),
}


def randomise(model):
    """transformers' own initialisation is too small to tell much apart, and has no biases."""
    for name, p in model.named_parameters():
        with torch.no_grad():
            scale = "norm" in name.lower() and name.endswith("weight")
            p.copy_(0.2 * torch.randn_like(p) + (1 if scale else 0))


def to_older_form(path):
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    path.write_text(json.dumps(config, indent=2))


def save(model, folder, older=False, dtype=torch.float32, max_shard_size="1GB"):
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    if older:
        to_older_form(folder / "config.json")
    words = {f"w{i}": i for i in range(SIZES["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)


def next_token_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="sum")


def gradients(model, prefix):
    found = {f"{prefix}.{name}": p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    return found


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
            out = model(document).logits
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
    logits = model(ids).logits
    next_token_loss(logits, ids).backward()
    out = {"input_ids": ids, "logits": logits.detach()} | gradients(model, "grad") | packed(model, vocabulary)
    prompts = torch.randint(0, vocabulary, (4, 9))
    answers = model.generate(prompts, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0,
                             attention_mask=torch.ones_like(prompts))
    return out | {"prompts": prompts, "answers": answers[:, prompts.shape[1] :]}


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
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                  attn_implementation="eager")
        save_file({k: v.contiguous() for k, v in golden(model).items()}, root / name / "golden.safetensors")
    assert (root / "qwen2_sharded/model/model.safetensors.index.json").exists()
    print(f"{len(CASES)} models in {root}")
    encoder_golden.write(pathlib.Path(sys.argv[2]), randomise, save)
    heads_golden.write(pathlib.Path(sys.argv[3]), randomise, save)


if __name__ == "__main__":
    main()
