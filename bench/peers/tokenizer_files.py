"""Texts and tokenizers for bench/run tokenizer, made once: tokenizer_files.py OUT BYTES

OUT/prose.zero, code.zero and chinese.zero: BYTES of texts of about 2,000 bytes, each of which ends with a zero byte. Prose is
the documentation in installed Python packages, code is what they are made of, and Chinese is words of one to four frequent
characters by Zipf's law, since no Chinese text comes with any package.

OUT/NAME/tokenizer.json: the BPE vocabularies that quicktok ships (qwen3, llama3, cl100k, o200k), with merges by rank; and a
WordPiece and a Unigram vocabulary trained on the texts, the latter by SentencePiece (OUT/unigram/tokenizer.model).
"""
import ast
import json
import os
import random
import struct
import sys
import sysconfig

import quicktok
import sentencepiece
from quicktok import _import_core as patterns
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT_BYTES = 2000
BPE = {"qwen3": patterns.QWEN_PAT, "llama3": patterns.LLAMA3_PAT, "cl100k": patterns.CL100K_PAT_POSSESSIVE, "o200k": patterns.O200K_PAT}
TRAINING_BYTES = 2_000_000


def python_files():
    for folder, _, names in os.walk(sysconfig.get_paths()["purelib"]):
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8", errors="ignore") as file:
                    yield file.read()


def docstrings():
    for source in python_files():
        try:
            nodes = ast.walk(ast.parse(source))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in nodes:
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield (ast.get_docstring(node) or "") + "\n"


def chinese():
    rng = random.Random(0)
    characters = [chr(c) for c in range(0x4E00, 0x4E00 + 3500)]
    rng.shuffle(characters)
    frequent = rng.choices(characters, weights=[1 / n for n in range(1, len(characters) + 1)], k=60_000)
    words = ["".join(frequent[at:at + size]) for at, size in zip(range(0, 55_000, 4), rng.choices([1, 2, 2, 2, 3, 4], k=13_000))]
    weights = [1 / n for n in range(1, len(words) + 1)]
    while True:
        yield "".join(rng.choices(words, weights=weights, k=rng.randrange(5, 20))) + rng.choice("\uff0c\u3002\u3002\n")


def texts_of(parts, size):
    """Parts together, cut into texts of at least TEXT_BYTES."""
    texts, text, done = [], "", 0
    for part in parts:
        text += part.replace("\0", "")
        while len(text.encode()) >= TEXT_BYTES:
            texts.append(text[:TEXT_BYTES].strip(" ") or ".")  # SentencePiece puts a space before one, too
            done += len(texts[-1].encode())
            text = text[TEXT_BYTES:]
            if done >= size:
                return texts
    sys.exit(f"error: the texts found have {done} bytes, fewer than {size}")


def ranks_of(name):
    """{bytes: rank} of a vocabulary that quicktok ships."""
    ranks = {}
    with open(os.path.join(os.path.dirname(quicktok.__file__), "data", f"{name}.vocab"), "rb") as file:
        for _ in range(struct.unpack("<I", file.read(4))[0]):
            token = file.read(struct.unpack("<H", file.read(2))[0])
            ranks[token] = struct.unpack("<I", file.read(4))[0]
    return ranks


def last_merge(token, ranks):
    """The two parts that merges of lower ranks leave of a token."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1))
        if rank >= ranks[token]:
            return None
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def write_bpe(folder, name):
    ranks = ranks_of(name)
    letters = {b: c for c, b in patterns.gpt2_byte_decoder().items()}
    spell = lambda token: "".join(letters[b] for b in token)
    merges = [last_merge(token, ranks) for token in sorted(ranks, key=ranks.get) if len(token) > 1]
    split = {"type": "Split", "pattern": {"Regex": BPE[name]}, "behavior": "Isolated", "invert": False}
    bytes_of_words = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    write_json(folder, {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None,
        "normalizer": {"type": "NFC"} if name == "qwen3" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes_of_words]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": name != "qwen3",
                  "vocab": {spell(token): rank for token, rank in ranks.items()},
                  "merges": [[spell(part) for part in pair] for pair in merges if pair]}})


def write_json(folder, spec):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(spec, file, ensure_ascii=False)


def write_word_piece(folder, texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=30_000, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    write_json(folder, json.loads(tokenizer.to_str()))


def write_unigram(folder, texts):
    os.makedirs(folder, exist_ok=True)
    sentences = (line for text in texts for line in text.split("\n") if line.strip())
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_prefix=f"{folder}/tokenizer", vocab_size=16_000, model_type="unigram",
        normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.9995, minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model")
    vocab = [[model.id_to_piece(i), model.get_score(i)] for i in range(len(model))]
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    write_json(folder, {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                        "pre_tokenizer": meta, "post_processor": None, "decoder": meta,
                        "model": {"type": "Unigram", "unk_id": model.unk_id(), "vocab": vocab, "byte_fallback": False}})


def main(out, size):
    os.makedirs(out, exist_ok=True)
    kinds = {"prose": docstrings(), "code": python_files(), "chinese": chinese()}
    training = []
    for kind, parts in kinds.items():
        texts = texts_of(parts, size)
        with open(f"{out}/{kind}.zero", "w", encoding="utf-8", newline="") as file:
            file.writelines(f"{text}\0" for text in texts)
        training += texts[:max(1, TRAINING_BYTES // TEXT_BYTES)]
    for name in BPE:
        write_bpe(f"{out}/{name}", name)
    write_word_piece(f"{out}/wordpiece", training)
    write_unigram(f"{out}/unigram", training)


main(sys.argv[1], int(sys.argv[2]))
