"""Folders whose special tokens stand beside tokenizer.json, with what transformers' AutoTokenizer makes of them."""
import json
import random

from transformers import AutoTokenizer

PIECES = ["<|end|>", "<|begin|>", "<|user|>", "<|sys|>", "<|other|>", "<|endoftext|>", "<tool>", "<think>", "<image>", "<video>",
          "<|pad|>", "return", "def", " ", "  ", "\n", "hello", " world", "<", "|>", "caf\u00e9"]
TEXTS = 60


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


def added(content, **flags):
    return {"__type": "AddedToken", **token(content, **flags)}


# name: files beside tokenizer.json; `n` is the first free id.
def folders(n):
    return {
        "map_alone": {"special_tokens_map": {"eos_token": "<|end|>", "bos_token": token("<|begin|>", rstrip=True),
                                             "additional_special_tokens": ["<|user|>", "<|sys|>"]}},
        "map_overrides": {"tokenizer_config": {"eos_token": "<|endoftext|>", "pad_token": "<|pad|>"},
                          "special_tokens_map": {"eos_token": token("<|other|>", lstrip=True)}},
        "decoder_counts": {
            "tokenizer_config": {"eos_token": "<|end|>", "added_tokens_decoder": {
                str(n - 1): token("<|endoftext|>", lstrip=True, special=True), str(n): token("<|end|>", special=False),
                str(n + 1): token("<tool>", special=False, rstrip=True)}},
            "special_tokens_map": {"eos_token": "<|other|>"}, "added_tokens": {"<think>": n + 2}},
        "added_tokens": {"tokenizer_config": {"eos_token": "<|endoftext|>"}, "special_tokens_map": {"unk_token": "<think>"},
                         "added_tokens": {"<think>": n + 1, "<tool>": n}},
        "extra_named": {"tokenizer_config": {"eos_token": added("<|end|>"), "extra_special_tokens": {"image_token": "<image>"}}},
        "extra_list": {"tokenizer_config": {"additional_special_tokens": [added("<|user|>", lstrip=True), "<|sys|>"],
                                            "eos_token": "<|endoftext|>"}},
        "own_name": {"tokenizer_config": {"video_token": "<video>", "eos_token": "<|endoftext|>"}},
        "split": {"tokenizer_config": {"eos_token": "<|end|>", "split_special_tokens": True}},
        "of_the_model": {"tokenizer_config": {"eos_token": "return", "pad_token": "def", "bos_token": None}},
    }


def write_folders(out, tokenizer_json):
    """OUT/NAME for each, with cases.jsonl and names.json; the list of names in OUT/folders.jsonl."""
    spec = json.loads(tokenizer_json)
    n = 1 + max([*spec["model"]["vocab"].values(), *(t["id"] for t in spec["added_tokens"])])
    rng = random.Random("special")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "folders.jsonl", "w", encoding="utf-8") as listed:
        for name, files in folders(n).items():
            folder = out / name
            folder.mkdir(exist_ok=True)
            (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
            config = {"tokenizer_class": "PreTrainedTokenizerFast", **files.get("tokenizer_config", {})}
            for file, content in {**files, "tokenizer_config": config}.items():
                (folder / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")
            tokenizer = AutoTokenizer.from_pretrained(folder)
            listed.write(json.dumps({
                "name": name, **{key: getattr(tokenizer, key) or "" for key in ("bos_token", "eos_token", "pad_token", "unk_token")},
                "eos_id": -1 if tokenizer.eos_token is None else tokenizer.eos_token_id, "size": len(tokenizer)}) + "\n")
            with open(folder / "cases.jsonl", "w", encoding="utf-8") as cases:
                for _ in range(TEXTS):
                    text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 9)))
                    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                    decoded = [tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
                               for skip in (False, True)]
                    cases.write(json.dumps({"hex": text.encode().hex(), "ids": ids, "decoded": decoded[0],
                                            "skipped": decoded[1]}) + "\n")
    return len(folders(n))
