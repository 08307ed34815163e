#!/usr/bin/env python3
"""Trains the example's tokenizer: byte-level BPE over the data's own text, in the form of Qwen2's tokenizer.

Writes tokenizer.json and tokenizer_config.json (ChatML template) into the folders of the teacher and the student. The
same bytes on every machine; the committed files come from it.

    examples/llm/make_tokenizer.py

Byte-pair encoding (Sennrich, Haddow, Birch 2016): start from the 256 bytes; again and again join the most frequent
pair of neighbours within a word (ties: the pair whose ids are smaller) and give the joined pair the next id.
"""
import argparse
import collections
import json
import os
import re

import generate

VOCABULARY = 1024
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Qwen2's pre-tokenizer, as tokenizer.json has it, and the same for the ASCII text that is trained on.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
ASCII_PATTERN = re.compile(r"[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
                 "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
                 "{% endif %}")


def byte_characters():
    """GPT-2's printable character for each byte, and the bytes in the order of their ids."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable}
    characters.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return characters, printable + others


def corpus():
    """How often each piece of the pre-tokenizer occurs in all prompts and answers, and in the text around them."""
    counts = collections.Counter()
    texts = []
    for skill in generate.SKILLS.values():
        for prompt, answer, _ in skill():
            texts += ["system", "\n", "user", "\n", prompt, "\n", "assistant", "\n", answer, " " + answer]
    for text in texts:
        counts.update(ASCII_PATTERN.findall(text))
    return counts


def train(merges_wanted):
    """The merges in order, as pairs of strings of byte characters."""
    characters, by_id = byte_characters()
    ids = {characters[byte]: i for i, byte in enumerate(by_id)}
    words = [([characters[byte] for byte in piece.encode()], count) for piece, count in sorted(corpus().items())]
    merges = []
    while len(merges) < merges_wanted:
        pairs = collections.Counter()
        for word, count in words:
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            raise SystemExit(f"the text has only {len(merges)} merges, {merges_wanted} are wanted: give it more words")
        best = min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))
        merges.append(best)
        ids["".join(best)] = len(ids)
        words = [(join(word, best), count) for word, count in words]
    return ids, merges


def join(word, pair):
    joined, i = [], 0
    while i < len(word):
        width = 2 if tuple(word[i:i + 2]) == pair else 1
        joined.append("".join(word[i:i + width]))
        i += width
    return joined


def token(content):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def tokenizer_json(ids, merges):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
             "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": ids, "merges": [" ".join(pair) for pair in merges]}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": len(ids) + i, **token(content)} for i, content in enumerate(SPECIAL)],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level, "decoder": byte_level, "model": model}


def tokenizer_config_json(ids):
    decoder = {str(len(ids) + i): token(content) for i, content in enumerate(SPECIAL)}
    return {"add_prefix_space": False, "added_tokens_decoder": decoder, "bos_token": None,
            "chat_template": CHAT_TEMPLATE, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
            "errors": "replace", "model_max_length": 512, "pad_token": "<|endoftext|>",
            "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=[os.path.join(here, "teacher"), os.path.join(here, "student")],
                        help="where to write (examples/llm/teacher and examples/llm/student)")
    arguments = parser.parse_args()
    ids, merges = train(VOCABULARY - 256 - len(SPECIAL))
    files = {"tokenizer.json": tokenizer_json(ids, merges), "tokenizer_config.json": tokenizer_config_json(ids)}
    for folder in arguments.folders:
        os.makedirs(folder, exist_ok=True)
        for name, content in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump(content, file, ensure_ascii=False, indent=1)
                file.write("\n")
    print(f"{len(ids) + len(SPECIAL)} tokens; the last merges: {[''.join(pair) for pair in merges[-5:]]}")


if __name__ == "__main__":
    main()
