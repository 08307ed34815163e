"""Adapters against PEFT: adapters_golden.py generate|check OUT.

generate: OUT/NAME/base is a model, OUT/NAME/adapter PEFT's folder of adapters for it, with values in B too, and
OUT/NAME/golden.safetensors has input_ids, logits with the adapters, and of the sum of the next tokens' cross-entropies the
gradients of the adapters (grad.PARAMETER, under the names of PEFT's files) and, of the model without them, of all weights
(full_grad.PARAMETER).
check: the C++ test has saved OUT/NAME/merged, which transformers opens, and OUT/NAME/saved_adapter, which PEFT opens over
OUT/NAME/base. Both give the same logits.
"""
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

CASES = {
    "plain": (transformers.Qwen2Config, False, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "all_linear": (transformers.LlamaConfig, True, {"r": 3, "lora_alpha": 16, "target_modules": "all-linear", "use_rslora": True}),
    "usual": (transformers.Qwen2Config, True, {"r": 16, "lora_alpha": 32}),
    "one_layer": (transformers.LlamaConfig, False, {"r": 2, "lora_alpha": 5, "target_modules": ["model.layers.1.mlp.up_proj"]}),
}


def loss_of(logits, ids):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")


def generate(case, kind, is_tied, options):
    config = kind(vocab_size=67, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  head_dim=6, tie_word_embeddings=is_tied, max_position_embeddings=64, initializer_range=0.2, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    case.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(case / "base")
    ids = torch.randint(0, 67, (2, 9))
    loss_of(model(ids).logits, ids).backward()
    tensors = {f"full_grad.{name}": weight.grad.clone() for name, weight in model.named_parameters()}
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.05, **options))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 0.1)
    adapted.eval()
    logits = adapted(ids).logits
    loss_of(logits, ids).backward()
    adapted.save_pretrained(case / "adapter")
    tensors.update({f"grad.{name.replace('.default', '')}": weight.grad for name, weight in adapted.named_parameters() if weight.requires_grad})
    save_file({"input_ids": ids, "logits": logits.detach(), **{name: tensor.contiguous() for name, tensor in tensors.items()}},
              case / "golden.safetensors")


def check(case):
    golden = load_file(case / "golden.safetensors")
    base = transformers.AutoModelForCausalLM.from_pretrained(case / "base", attn_implementation="eager")
    merged, info = transformers.AutoModelForCausalLM.from_pretrained(case / "merged", attn_implementation="eager", output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    adapted = peft.PeftModel.from_pretrained(base, case / "saved_adapter").eval()
    theirs, ours = (json.loads((case / folder / "adapter_config.json").read_text()) for folder in ("adapter", "saved_adapter"))
    for key in ("peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "bias", "inference_mode"):
        assert theirs[key] == ours[key], f"{case}: {key} is {ours[key]}, PEFT says {theirs[key]}"
    stored, expected = (load_file(case / folder / "adapter_model.safetensors") for folder in ("saved_adapter", "adapter"))
    assert stored.keys() == expected.keys(), stored.keys() ^ expected.keys()
    with torch.no_grad():
        for what, model in (("merged", merged), ("adapter", adapted)):
            difference = (model(golden["input_ids"]).logits - golden["logits"]).abs().max() / golden["logits"].abs().max()
            assert difference < 1e-5, f"{case}, {what}: logits differ by {difference:.2e}"
    print(f"{case.name}: the logits of both are PEFT's")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    what, out = sys.argv[1], pathlib.Path(sys.argv[2])
    for name, case in CASES.items():
        generate(out / name, *case) if what == "generate" else check(out / name)


main()
