#!/usr/bin/env python3
"""Writes examples/distilbert/teacher/tokenizer.json: BERT's WordPiece with the words of demo_text.cc, each a token of its own.

    examples/distilbert/make_tokenizer.py
"""
import json
import os
import re

FOLDER = os.path.dirname(os.path.abspath(__file__))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def words():
    with open(f"{FOLDER}/demo_text.cc", encoding="utf-8") as file:
        text = file.read()
    lists = text[text.index("kWorld[]"):text.index("kSentenceForms")]
    found = {word for quoted in re.findall(r'"([^"]*)"', lists) for word in quoted.split()}
    return sorted(word for word in found if not word.startswith("%"))


def main():
    vocabulary = {token: i for i, token in enumerate(SPECIAL + words())}
    special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, token in enumerate(SPECIAL)]
    piece = {"single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]}
    pair = piece["single"] + [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    around = {token: {"id": token, "ids": [SPECIAL.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", **piece, "pair": pair, "special_tokens": around},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary}}
    with open(f"{FOLDER}/teacher/tokenizer.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(tokenizer, indent=1) + "\n")
    print(f"{len(vocabulary)} tokens")


if __name__ == "__main__":
    main()
