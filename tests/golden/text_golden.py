"""Tokenizers and chat templates with the results of their oracles: text_golden.py OUT_FOLDER [TEXTS]

TEXTS: how many texts a tokenizer, 600 where it is not said. What CI compares is a part of what may be compared by hand.

OUT_FOLDER/special has folders whose special tokens stand in several files. OUT_FOLDER/NAME/ is a tokenizer (trained here by `tokenizers` on Python's own library), with cases.jsonl: the bytes of a
text in hex, its ids, and the text that the ids decode to. OUT_FOLDER/templates.jsonl: a template, its variables, and
what jinja2 under transformers' settings renders. OUT_FOLDER/patterns.jsonl: patterns, and what `tokenizers` cuts by them. The
C++ tests read them.
"""
import functools
import json
import multiprocessing
import pathlib
import random
import sys
import sysconfig
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from transformers import AutoTokenizer

import text_golden_kinds
import text_golden_sentencepiece
from text_golden_patterns import write_patterns
from text_golden_special import write_folders
from text_golden_templates import template_cases
from text_golden_unicode import disputed

CASES_PER_TOKENIZER = int(sys.argv[2]) if len(sys.argv) > 2 else 600
VOCAB_SIZE = 3000

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\s+$"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def byte_level(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **options})


SPECIAL = [AddedToken(t, special=True, normalized=False) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
VARIANTS = [
    AddedToken("<left>", special=False, normalized=False, lstrip=True),
    AddedToken("<right>", special=False, normalized=False, rstrip=True),
    AddedToken("<both>", special=True, normalized=False, lstrip=True, rstrip=True),
    AddedToken("<|im|>", special=True, normalized=False),
    AddedToken("<|im|>_long", special=False, normalized=False),
    AddedToken("lonely", special=False, normalized=False, single_word=True),
    AddedToken("caf\u00e9", special=False, normalized=True),
    AddedToken("re\u0301sume\u0301", special=False, normalized=True, rstrip=True),
    AddedToken("<norm>", special=True, normalized=True, lstrip=True, single_word=True),
    AddedToken("  ", special=False, normalized=False),
    AddedToken("\u4e16\u754c", special=False, normalized=True),
]

# name: normalizer, pre-tokenizer, added tokens
KINDS = {
    "qwen2": (normalizers.NFC(), pre_tokenizers.Sequence([split(QWEN2), byte_level()]), SPECIAL),
    "qwen2_added": (normalizers.NFC(), pre_tokenizers.Sequence([split(QWEN2), byte_level()]), SPECIAL + VARIANTS),
    "llama3": (None, pre_tokenizers.Sequence([split(LLAMA3), byte_level()]), SPECIAL),
    "llama3_added": (None, pre_tokenizers.Sequence([split(LLAMA3), byte_level()]), SPECIAL + VARIANTS),
    "gpt2": (None, byte_level(use_regex=True), SPECIAL[:1]),
    "gpt2_prefix": (normalizers.Sequence([normalizers.NFC()]),
                    pre_tokenizers.Sequence([byte_level(use_regex=True, add_prefix_space=True)]), SPECIAL + VARIANTS),
    "gpt2_unknown": (None, byte_level(use_regex=True), SPECIAL),
    "gpt2_fused": (None, byte_level(use_regex=True), SPECIAL),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(use_regex=True)]),
               SPECIAL),
    "digits": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                              byte_level(use_regex=True, add_prefix_space=True)]), SPECIAL),
    "cl100k": (None, pre_tokenizers.Sequence([split(CL100K, "removed", invert=True), byte_level()]), SPECIAL),
    "o200k": (None, pre_tokenizers.Sequence([split(O200K), byte_level()]), SPECIAL),
    "deepseek": (None, pre_tokenizers.Sequence([*map(split, DEEPSEEK), byte_level()]), SPECIAL),
    # Empty matches, which cut and replace, too.
    "camel": (normalizers.Replace(Regex(r"(?<=[a-z])(?=\p{Nd})|\b(?=[.,])"), "\u2581"),
              pre_tokenizers.Sequence([split(r"(?=\p{Lu})|(?<=_)", "merged_with_next"), split(r"[^\s&&\W]*", "contiguous"),
                                       byte_level()]), SPECIAL),
    "deepseek_coder": (None, pre_tokenizers.Sequence([*map(split, DEEPSEEK_CODER), byte_level()]), SPECIAL),
}

SENTENCES = [
    "Hello, world! It's a test; they'll've done what I'd do. WE'RE HERE, I'M NOT.", "don\u2019t 'tis o'clock 'S 'Ll 'RE",
    "Gr\u00fc\u00dfe aus K\u00f6ln: \u00e4\u00f6\u00fc\u00c4\u00d6\u00dc\u00df", "cafe\u0301 caf\u00e9 re\u0301sume\u0301 r\u00e9sum\u00e9",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3001\u30ab\u30bf\u30ab\u30ca", "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea \u2764\ufe0f", "x\u00b2 + y\u00b3 = \u00bd \u2167 \u0661\u0662\u0663 \uff11\uff12\uff13 1234567 3.14159e-10",
    "def f(x):\n    return x ** 2  # squares\n\n\n", "\ttabs\t\tand\r\nlines\r\n\r\n   end   ", "a" * 60 + " " * 40 + "b" * 3,
    "o\u0302\u0323 o\u0323\u0302 \u1ed9 \u212b \u2126 \ufb01 \u01c5 \u0130 \u0131 \u017f", "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "a<left>b  <left> c<right>  d <both>  e", "lonely lonelyx xlonely _lonely lonely. (lonely)", "<|im|>_long<|im|>_lon <|im", "x  <norm>y <norm> <norm>_",
    "\u2460lonely \u24b6lonely \u0301lonely lonely\u0301 lonely\u203f lonely\u200d lonely\u00b2",
]
SPACES = list(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff\x00\x7f")
TOKENS = [t.content for t in SPECIAL + VARIANTS] + ["<|", "<|im_", "|>", "<norm", "<|endoftext|"]


def library_text():
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(folder.glob("*.py"))[:90] + sorted(folder.glob("encodings/cp*.py"))[:4]
    return [f.read_text(encoding="utf-8") for f in files if f.stat().st_size < 200_000]


def random_character(rng):
    while True:
        block = rng.choice([0x250, 0x250, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
        c = chr(rng.randrange(block))
        if unicodedata.category(c) not in ("Cn", "Cs") and c not in disputed():
            return c


def fuzzed(rng, corpus):
    parts = []
    for _ in range(rng.randrange(1, 9)):
        kind = rng.random()
        if kind < 0.2:
            text = rng.choice(corpus)
            start = rng.randrange(max(1, len(text) - 200))
            parts.append(text[start:start + rng.randrange(1, 120)])
        elif kind < 0.4:
            text = rng.choice(SENTENCES)
            start = rng.randrange(len(text))
            parts.append(text[start:start + rng.randrange(1, 40)])
        elif kind < 0.55:
            parts.append("".join(rng.choice(SPACES) for _ in range(rng.randrange(1, 6))))
        elif kind < 0.7:
            parts.append(rng.choice(TOKENS))
        elif kind < 0.8:
            parts.append(str(rng.randrange(10 ** rng.randrange(1, 12))))
        elif kind < 0.85:
            parts.append(rng.choice("aeionAEION ") + "".join(chr(rng.randrange(0x300, 0x370)) for _ in range(rng.randrange(1, 5))))
        else:
            parts.append("".join(random_character(rng) for _ in range(rng.randrange(1, 8))))
    data = "".join(parts).encode()
    if rng.random() < 0.1:  # not UTF-8: a byte replaced, cut or put in
        at = rng.randrange(len(data))
        data = data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(3))) + data[at + rng.randrange(3):]
    return data


def edit(name, text):
    """Forms of tokenizer.json that this version of `tokenizers` reads but does not write."""
    spec = json.loads(text)
    model = spec["model"]
    if name.startswith("gpt2"):  # merges as "a b"
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        model["continuing_subword_prefix"] = model["end_of_word_suffix"] = ""
    if name.startswith("llama3"):  # a word that no merge reaches, but is a token
        model["ignore_merges"] = True
        for word in ("\u0120return", "\u0120unreachable", "zqxj", "'re\u0120", "\u0120squares"):
            model["vocab"].setdefault(word, len(model["vocab"]))
        for i, token in enumerate(spec["added_tokens"]):
            token["id"] = len(model["vocab"]) + i
        if spec["post_processor"] is not None:
            start = next(t["id"] for t in spec["added_tokens"] if t["content"] == "<|im_start|>")
            spec["post_processor"]["processors"][1]["special_tokens"]["<|im_start|>"]["ids"] = [start]
    if name in ("gpt2_unknown", "gpt2_fused"):  # letters that are no tokens
        gone = [t for t in model["vocab"] if any(c in t for c in "aeQ\u0120\u00c3")]
        for token in gone:
            del model["vocab"][token]
        model["merges"] = [m for m in model["merges"] if not any(t in gone for t in [*m.split(" "), m.replace(" ", "")])]
        model["vocab"] = {t: i for i, t in enumerate([*sorted(model["vocab"], key=model["vocab"].get), "<|endoftext|>"])}
        for i, token in enumerate(spec["added_tokens"]):
            token["id"] = model["vocab"].get(token["content"], len(model["vocab"]) + i - 1)
        if name == "gpt2_fused":
            model["unk_token"], model["fuse_unk"] = "<|endoftext|>", True
    return json.dumps(spec, ensure_ascii=name == "qwen2")


def make_tokenizer(name, corpus):
    normalizer, pre_tokenizer, added = KINDS[name]
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel()]) if name == "llama3" else decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(corpus + SENTENCES * 5, trainer)
    tokenizer.add_special_tokens([t for t in added if t.special])
    tokenizer.add_tokens([t for t in added if not t.special])
    if name == "llama3":
        start = tokenizer.token_to_id("<|im_start|>")
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", start)])])
    elif name.startswith("gpt2"):
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return edit(name, tokenizer.to_str())


def write_tokenizer(folder, name, text, eos_token, corpus):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos_token}))
    tokenizer = Tokenizer.from_str(text)
    rng = random.Random(name)
    size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    with open(folder / "cases.jsonl", "w", encoding="utf-8") as out:
        texts = [s.encode() for s in SENTENCES + ["", " ", "\n"]]
        texts += [fuzzed(rng, corpus) for _ in range(CASES_PER_TOKENIZER - len(texts))]
        for data in texts:
            ids = tokenizer.encode(data.decode("utf-8", errors="replace"), add_special_tokens=False).ids
            drawn = [rng.randrange(size + 3) for _ in range(rng.randrange(12))]
            out.write(json.dumps({
                "hex": data.hex(), "ids": ids,
                "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                "skipped": tokenizer.decode(ids, skip_special_tokens=True),
                "drawn": drawn, "drawn_decoded": tokenizer.decode(drawn, skip_special_tokens=False)}) + "\n")
    with open(folder / "encodings.jsonl", "w", encoding="utf-8") as out:
        texts = [data.decode("utf-8", errors="replace") for data in texts]
        for i, text in enumerate(texts):
            second = rng.choice(texts)[:80] if i % 2 else None  # of two long texts each part cut off meets each
            text = text[:80] if i % 2 else text
            out.write(json.dumps(text_golden_kinds.encoding_case(tokenizer, rng, text, second)) + "\n")



@functools.lru_cache(maxsize=None)
def library():
    return library_text()


def write_kind(out, name):
    if name in text_golden_sentencepiece.FOLDERS:
        sentences = [line for text in library() + SENTENCES * 5 for line in text.split("\n") if 0 < len(line) < 1000]
        text = text_golden_sentencepiece.write_model(out / name, name, sentences)
        write_tokenizer(out / name, name, text, None, library())
        return text_golden_sentencepiece.finish(out / name, name)
    if name in KINDS:
        return write_tokenizer(out / name, name, make_tokenizer(name, library()), "<|endoftext|>", library())
    kind = text_golden_kinds.kinds()[name]
    text = text_golden_kinds.make(kind, library() + SENTENCES * 5, VOCAB_SIZE).to_str()
    write_tokenizer(out / name, name, text, kind.tokens[2], library())


def write_bare_vocab(folder, vocab_of):
    """A folder with BERT's vocab.txt alone, and what transformers' AutoTokenizer makes of it."""
    vocab = Tokenizer.from_file(str(vocab_of / "tokenizer.json")).get_vocab()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(vocab, key=vocab.get)), encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    text = AutoTokenizer.from_pretrained(folder).backend_tokenizer.to_str()
    write_tokenizer(folder, folder.name, text, "[SEP]", library())
    (folder / "tokenizer.json").unlink()


def main(out_folder):
    out = pathlib.Path(out_folder)
    out.mkdir(parents=True, exist_ok=True)
    names = [*KINDS, *text_golden_kinds.kinds(), *text_golden_sentencepiece.FOLDERS]
    disputed()  # once, before there are several processes
    with multiprocessing.Pool(2) as pool:
        pool.starmap(write_kind, [(out, name) for name in names], chunksize=1)
    write_bare_vocab(out / "bert_vocab", out / "bert")
    names.append("bert_vocab")
    with open(out / "kinds.jsonl", "w", encoding="utf-8") as listed:
        for name in names:
            listed.write(json.dumps({"name": name}) + "\n")
    write_patterns(out / "patterns.jsonl")
    write_folders(out / "special", out)
    with open(out / "templates.jsonl", "w", encoding="utf-8") as f:
        for case in template_cases():
            f.write(json.dumps(case, ensure_ascii=False) + "\n")
    print(f"tokenizers {tokenizers.__version__}: {len(names)} tokenizers, {len(names) * CASES_PER_TOKENIZER} texts; left out are "
          f"{len(disputed())} characters whose category or decomposition is another one in its Unicode tables")


if __name__ == "__main__":
    main(sys.argv[1])
