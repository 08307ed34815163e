"""Folders whose special tokens stand beside tokenizer.json, or whose class changes what it says, with what transformers' AutoTokenizer makes of them."""
import json
import random

from transformers import AutoTokenizer

PIECES = ["<|end|>", "<|begin|>", "<|user|>", "<|sys|>", "<|other|>", "<|endoftext|>", "<tool>", "<think>", "<image>", "<video>",
          "<|pad|>", "return", "def", " ", "  ", "\n", "hello", " world", "<", "|>", "caf\u00e9", "Hello", "\u4f60\u597d", "</s>", "<s>",
          "[SEP]", "12"]
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


# name: whose tokenizer.json, tokenizer_config.json, config.json.
def class_folders():
    ends = {"bos_token": "<s>", "eos_token": "</s>"}
    found = {}
    for name in ("GPT2Tokenizer", "RobertaTokenizer", "GPTNeoXTokenizer", "CodeGenTokenizer", "BartTokenizer"):
        for add in (True, False, None):
            config = {} if add is None else {"add_prefix_space": add}
            kind = {"RobertaTokenizer": "roberta", "BartTokenizer": "roberta_prefix"}.get(name, "gpt2" if add else "gpt2_prefix")
            if kind == "gpt2_prefix" or name == "GPTNeoXTokenizer":
                kind = "gpt2"
            found[f"{name}_{add}"] = (kind, {"tokenizer_class": name, **config}, {})
    found["qwen2_prefix"] = ("qwen2", {"tokenizer_class": "Qwen2TokenizerFast", "add_prefix_space": True}, {"model_type": "qwen2"})
    found["qwen2_by_model"] = ("qwen2", {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True}, {"model_type": "qwen2"})
    found["gpt2_as_it_is"] = ("gpt2", {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True}, {})
    for kind in ("llama2", "mistral", "first"):
        for add in (True, False):
            for legacy in (True, False):
                found[f"{kind}_{add}_{legacy}"] = (kind, {"tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": add,
                                                          "legacy": legacy, **ends}, {"model_type": "llama"})
    found["llama2_no_fields"] = ("llama2", {"tokenizer_class": "LlamaTokenizer", **ends}, {})
    found["mistral_by_model"] = ("mistral", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, **ends}, {"model_type": "mistral"})
    found["phi3_by_model"] = ("llama2", {"tokenizer_class": "LlamaTokenizer", "legacy": False, **ends}, {"model_type": "phi3"})
    found["llama3_is_bytes"] = ("llama3", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": True}, {"model_type": "llama"})
    for i, fields in enumerate(({}, {"do_lower_case": False}, {"strip_accents": False}, {"do_lower_case": False, "strip_accents": True},
                                {"tokenize_chinese_chars": False}, {"do_lower_case": True})):
        found[f"bert_{i}"] = ("bert_cased" if i % 2 else "bert", {"tokenizer_class": "BertTokenizerFast", **fields}, {"model_type": "bert"})
    found["bert_by_model"] = ("bert", {"do_lower_case": False}, {"model_type": "distilbert"})
    found["bert_other_class"] = ("bert", {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"}, {"model_type": "bert"})
    found["distilbert"] = ("bert", {"do_lower_case": False, "tokenizer_class": "DistilBertTokenizer"}, {"model_type": "distilbert"})
    return found


def write_folder(folder, tokenizer_json, files, rng, listed):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    listed.write(json.dumps({
        "name": folder.name, **{key: getattr(tokenizer, key) or "" for key in ("bos_token", "eos_token", "pad_token", "unk_token")},
        "eos_id": -1 if tokenizer.eos_token is None else tokenizer.eos_token_id, "size": len(tokenizer)}) + "\n")
    with open(folder / "cases.jsonl", "w", encoding="utf-8") as cases:
        for _ in range(TEXTS):
            text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 9)))
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            decoded = [tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
                       for skip in (False, True)]
            cases.write(json.dumps({"hex": text.encode().hex(), "ids": ids, "decoded": decoded[0],
                                    "skipped": decoded[1]}) + "\n")


def write_folders(out, kinds):
    """OUT/NAME for each, with cases.jsonl; what their tokens are in OUT/folders.jsonl. `kinds`: where the tokenizers are."""
    def tokenizer_json(kind):
        return (kinds / kind / "tokenizer.json").read_text(encoding="utf-8")
    gpt2 = tokenizer_json("gpt2")
    spec = json.loads(gpt2)
    n = 1 + max([*spec["model"]["vocab"].values(), *(t["id"] for t in spec["added_tokens"])])
    rng = random.Random("special")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "folders.jsonl", "w", encoding="utf-8") as listed:
        for name, files in folders(n).items():
            config = {"tokenizer_class": "PreTrainedTokenizerFast", **files.get("tokenizer_config", {})}
            write_folder(out / name, gpt2, {**files, "tokenizer_config": config}, rng, listed)
        for name, (kind, tokenizer_config, config) in class_folders().items():
            files = {"tokenizer_config": tokenizer_config, **({"config": config} if config else {})}
            write_folder(out / name, tokenizer_json(kind), files, rng, listed)
