"""Seeds and dictionaries of the fuzzers: make_corpus.py OUT. OUT/TARGET/ has the seeds, OUT/TARGET.dict the words.

They are made and not stored: tokenizers of every kind with a few tokens each, the chat templates of the golden tests, and small files
of data and weights (file_seeds.py, hdf5_seeds.py).
"""
import gzip
import json
import pathlib
import re
import struct
import sys

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import file_seeds
import hdf5_seeds
from chat_templates import deepseek, gemma_phi, llama, mistral, others, qwen

WORDS = ["<unk>", "<s>", "</s>", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "a", "b", "ab", "##b", "\u2581", "\u2581a", "\u0120a", "H", "e", "l", "o", "lo",
         "\u00e9", "\u65e5", "1", "2", "12", "<0x0A>", "<0xE2>", "!", ",", "'s"]
VOCAB = {word: i for i, word in enumerate(WORDS)}
MODELS = [
    {"type": "BPE", "vocab": VOCAB, "merges": [["a", "b"], ["l", "o"], ["1", "2"], ["\u2581", "a"]]},
    {"type": "BPE", "vocab": VOCAB, "merges": ["a b", "l o"], "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True},
    {"type": "BPE", "vocab": VOCAB, "merges": [["a", "b"]], "ignore_merges": True},
    {"type": "WordPiece", "vocab": VOCAB, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 20},
    {"type": "WordLevel", "vocab": VOCAB, "unk_token": "<unk>"},
    {"type": "Unigram", "vocab": [[word, -float(i)] for i, word in enumerate(WORDS)], "unk_id": 0, "byte_fallback": False},
]
NORMALIZERS = [None, *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
               {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
               {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
               {"type": "Replace", "pattern": {"Regex": "\\s+|a{2,}"}, "content": "x"}, {"type": "Strip", "strip_left": True, "strip_right": True},
               {"type": "Precompiled", "precompiled_charsmap": "DAAAAAAAAAAAAAAAAAAAAGEA"}]
PRE_TOKENIZERS = [None, {"type": "BertPreTokenizer"}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                  {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}, {"type": "Whitespace"},
                  {"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": "l"}, {"type": "Punctuation", "behavior": "Contiguous"},
                  {"type": "Digits", "individual_digits": True},
                  *({"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s"}, "behavior": behavior, "invert": behavior == "Isolated"}
                    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"))]
POST_PROCESSORS = [None, {"type": "ByteLevel", "trim_offsets": True}, {"type": "BertProcessing", "sep": ["[SEP]", 4], "cls": ["[CLS]", 3]},
                   {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": True},
                   {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}]
DECODERS = [None, {"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}, {"type": "BPEDecoder", "suffix": "</w>"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}]
ADDED = [{"id": 1, "content": "<s>", "special": True, "normalized": False, "lstrip": True, "rstrip": True, "single_word": False},
         {"id": len(WORDS), "content": "lonely", "special": False, "normalized": True, "single_word": True}]
PATTERNS = [r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", r"[a-z&&[^aeiou]]+", r"\h{,3}\H++",
            r"(?<name>a|b)*?\k<name>", r"(?<=x)y|(?<!x)z|\b\w+\B", r"\p{Han}|\p{^Greek}|\P{Lu}", r"\A.+\Z|\z|\G", r"\u00e9|\x{65e5}|\R|\X", "(?m:.)*+"]


def tokenizers():
    parts = {"normalizer": NORMALIZERS, "pre_tokenizer": PRE_TOKENIZERS, "post_processor": POST_PROCESSORS, "decoder": DECODERS}
    for i in range(max(map(len, parts.values()))):
        for j, model in enumerate(MODELS):
            yield json.dumps({"added_tokens": ADDED, **{name: kinds[(i + j) % len(kinds)] for name, kinds in parts.items()}, "model": model})
    several = {"normalizer": {"type": "Sequence", "normalizers": NORMALIZERS[1:5]},
               "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[6:9]},
               "post_processor": {"type": "Sequence", "processors": POST_PROCESSORS[1:2]}, "decoder": {"type": "Sequence", "decoders": DECODERS[3:5]}}
    yield json.dumps({**several, "model": MODELS[0]}) + "\0" + json.dumps({
        "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": True}, "extra_special_tokens": ["[PAD]"], "add_prefix_space": True,
        "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}}, "tokenizer_class": "LlamaTokenizer", "split_special_tokens": True})


def number(field, value):
    """A protobuf field of a number."""
    data = b""
    for rest in (field << 3, value):
        while rest >= 0x80:
            data += bytes([rest & 0x7F | 0x80])
            rest >>= 7
        data += bytes([rest])
    return data


def data(field, value):
    head = number(field, len(value))
    return bytes([head[0] | 2]) + head[1:] + value


def models():
    for algorithm in (1, 2, 3):
        pieces = b"".join(data(1, data(1, word.encode()) + b"\x15" + struct.pack("<f", -i) + number(3, {0: 2, 1: 3, 2: 3, 9: 4, 24: 6, 25: 6}.get(i, 1)))
                          for i, word in enumerate(WORDS))
        yield pieces + data(2, number(3, algorithm) + number(35, 1) + number(40, 0)) + data(3, data(2, bytes(12) + b"a\0"))


def templates():
    for family in (qwen, llama, mistral, gemma_phi, deepseek, others):
        for template, _ in family.MODELS.values():
            yield template


def vocabularies():
    yield "\n".join(WORDS) + "\n"
    yield "\r\n".join(sorted(WORDS))


def row_files():
    """The first byte chooses the file's name (rows.cc)."""
    lines = b'{"messages": [{"role": "user", "content": "a\\u00e9\\n"}], "n": [1, -2.5e3, null, true]}\n\n"x"\n'
    csv = b'a,b,c\r\n1,"two, ""2""","li\nne"\r\n\r\n3,4,\xc3\xa9\n'
    yield b"\0" + lines
    yield b"\0\xef\xbb\xbf" + lines
    yield b"\1" + csv
    yield b"\2" + csv.replace(b",", b"\t")
    yield b"\3" + gzip.compress(csv, mtime=0) + gzip.compress(csv, mtime=0)
    yield b"\0" + gzip.compress(lines * 9, mtime=0)
    yield b"\4" + bytes.fromhex("28b52ffd0458410000") + b'{"a": 1}' + bytes(4)
    yield b"\5PAR1" + bytes(20) + b"PAR1"


def words_of(texts, pattern):
    return sorted({word for text in texts for word in re.findall(pattern, text) if len(word) < 30})


def main():
    out = pathlib.Path(sys.argv[1])
    seeds = {"tokenizer_json": list(tokenizers()), "tokenizer_model": list(models()), "vocab_txt": list(vocabularies()),
             "chat_template": list(templates()), "pattern": PATTERNS, "rows": list(row_files()), **file_seeds.SEEDS, **hdf5_seeds.SEEDS}
    dictionaries = {"rows": ['"', '""', "\n", "\r\n", ",", "\t", "PAR1", "null", "true", "[", "{", "\ufeff"],
                    "tokenizer_json": words_of(seeds["tokenizer_json"], r'"[\w]+"'), "tokenizer_model": WORDS, "vocab_txt": WORDS,
                    "chat_template": words_of(seeds["chat_template"], r"\{%-? *\w+|-?%\}|\w+|\| *\w+|[!=<>]=|[-+*/~%]"),
                    "pattern": words_of(PATTERNS, r"\\p\{\^?\w+\}|\\.|\(\?<?[=!:>]|&&|\{,?\d+,?\d*\}[+?]?|[*+?]{1,2}|\[\^?|\]"), **file_seeds.DICTIONARIES,
                    **hdf5_seeds.DICTIONARIES}
    for target, texts in seeds.items():
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        for i, text in enumerate(texts):
            (folder / f"seed-{i}").write_bytes(text if isinstance(text, bytes) else text.encode())
        quoted = ("".join(f"\\x{byte:02x}" for byte in (word if isinstance(word, bytes) else word.encode())) for word in dictionaries[target])
        (out / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in quoted))


if __name__ == "__main__":
    main()
