"""The peer of bench_generate: the same prompts and model, by transformers' generate().

  generate.py FOLDER --rows N --new_tokens N [--bf16]

First compares with what bench_generate has left in FOLDER: each answer must be the same, up to where two logits are equal but for
rounding. Shorter prompts are padded on the left, as generate() needs it.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers


def generate(model, prompts, new_tokens):
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    found = model.generate(ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=False, eos_token_id=None, pad_token_id=0)
    return found[:, longest:].tolist()


def compare(model, prompts, ours, theirs, tolerance):
    same = 0
    for number, (prompt, a, b) in enumerate(zip(prompts, ours, theirs)):
        first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))
        same += first
        if first == len(a):
            continue
        logits = model(torch.tensor([prompt + a[:first]])).logits[0, -1].float()
        gap = (logits[b[first]] - logits[a[first]]).abs().item() / logits.abs().max().item()
        if gap > tolerance:
            sys.exit(f"error: answer {number} differs at token {first}: {a[first]} for {b[first]}, whose logits are {gap:.1e} apart")
    print(f"{same} of {sum(map(len, ours))} tokens are the same; what follows a tie within rounding is not compared")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--new_tokens", type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    name = f"{'bf16' if options.bf16 else 'fp32'}-{options.rows}"
    with open(f"{options.folder}/prompts.json", encoding="utf-8") as file:
        prompts = json.load(file)[:options.rows]
    with open(f"{options.folder}/{name}.json", encoding="utf-8") as file:
        ours = json.load(file)
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{options.folder}/model",
                                                              dtype=torch.bfloat16 if options.bf16 else torch.float32)
    with torch.inference_mode():
        compare(model, prompts, ours, generate(model, prompts, options.new_tokens), 5e-2 if options.bf16 else 1e-4)
        start = time.monotonic()
        generate(model, prompts, options.new_tokens)
        print(f"transformers: {options.rows * options.new_tokens / (time.monotonic() - start):.2f} tokens/s")


main()
