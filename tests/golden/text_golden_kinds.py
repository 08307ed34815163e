"""Tokenizers of other kinds than byte-level BPE, and encodings with all that stands beside ids."""
import base64
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from text_golden_charsmap import charsmap

BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LLAMA_TOKENS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def special(names):
    return [AddedToken(name, special=True, normalized=False) for name in names]


def bert_template(tokenizer):
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    return processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids)


def bert_processing(tokenizer):
    return processors.BertProcessing(("[SEP]", tokenizer.token_to_id("[SEP]")), ("[CLS]", tokenizer.token_to_id("[CLS]")))


def roberta(**options):
    return lambda tokenizer: processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), **options)


def begin_template(tokenizer):
    ids = [("<s>", tokenizer.token_to_id("<s>"))]
    return processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=ids)


def end_template(tokenizer):
    ids = [("</s>", tokenizer.token_to_id("</s>"))]
    return processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=ids)


def trimmed_template(tokenizer):
    return processors.Sequence([processors.ByteLevel(trim_offsets=True), begin_template(tokenizer)])


class Kind:
    """A model, what is around it, and the trainer of its vocabulary."""
    def __init__(self, model, normalizer, pre_tokenizer, decoder, processor=None, tokens=(), more=(), **trainer):
        self.model, self.normalizer, self.pre_tokenizer = model, normalizer, pre_tokenizer
        self.decoder, self.processor, self.tokens, self.more, self.trainer = decoder, processor, list(tokens), list(more), trainer


def word_piece(normalizer, pre_tokenizer, processor=bert_template, cleanup=True, more=(), **options):
    return Kind(models.WordPiece(unk_token="[UNK]", **options), normalizer, pre_tokenizer,
                decoders.WordPiece(prefix="##", cleanup=cleanup), processor, BERT_TOKENS, more)


def byte_fallback(normalizer, pre_tokenizer, decoder, fuse_unk=True, tokens=LLAMA_TOKENS + BYTES, more=()):
    model = models.BPE(unk_token="<unk>", fuse_unk=fuse_unk, byte_fallback=True)
    return Kind(model, normalizer, pre_tokenizer, decoder, begin_template, tokens, more)


def byte_level(pre_tokenizer, processor, normalizer=None):
    return Kind(models.BPE(), normalizer, pre_tokenizer, decoders.ByteLevel(), processor, LLAMA_TOKENS,
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def meta(scheme, split=True):
    return pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme=scheme, split=split)


LLAMA_DECODER = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
GEMMA_DECODER = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
MORE = [AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True, normalized=False), AddedToken("lonely", single_word=True),
        AddedToken("CAF\u00c9", normalized=True), AddedToken("<both>", lstrip=True, rstrip=True, special=True)]


def unigram(normalizer, pre_tokenizer, tokens=("<pad>", "<unk>", "</s>"), **options):
    return Kind(models.Unigram(), normalizer, pre_tokenizer, decoders.Metaspace(), end_template, tokens, MORE, unk_token="<unk>",
                max_piece_length=10, **options)


def precompiled():
    return normalizers.Precompiled(base64.b64decode(charsmap()))


def splits(behavior):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"[0-9]+|-"), behavior), pre_tokenizers.Punctuation(behavior),
                                    pre_tokenizers.Split(" ", behavior)])


def kinds():
    bert, whitespace = normalizers.BertNormalizer, pre_tokenizers.Whitespace()
    both = pre_tokenizers.BertPreTokenizer()
    stripped = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    llama = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    squeezed = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()])
    found = {
        "bert": word_piece(bert(), both),
        "bert_more": word_piece(bert(), both, more=MORE),
        "bert_cased": word_piece(bert(lowercase=False), both, bert_processing, cleanup=False),
        "bert_plain": word_piece(bert(clean_text=False, handle_chinese_chars=False, strip_accents=False), both),
        "bert_short": word_piece(bert(), both, max_input_chars_per_word=9),
        "stripped": word_piece(stripped, whitespace),
        "nfkd": word_piece(normalizers.NFKD(), pre_tokenizers.WhitespaceSplit()),
        "level": Kind(models.WordLevel(unk_token="[UNK]"), squeezed, whitespace, None, bert_template, BERT_TOKENS),
        "roberta": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), roberta(trim_offsets=True, add_prefix_space=False)),
        "roberta_prefix": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), roberta(trim_offsets=True, add_prefix_space=True)),
        "roberta_whole": byte_level(pre_tokenizers.ByteLevel(), roberta(trim_offsets=False)),
        "trimmed": byte_level(pre_tokenizers.ByteLevel(), trimmed_template, normalizers.NFC()),
        "llama2": byte_fallback(llama, None, LLAMA_DECODER, more=MORE),
        "mistral": byte_fallback(None, meta("first", split=False), LLAMA_DECODER, more=MORE),
        "first": byte_fallback(normalizers.Strip(), meta("first"), LLAMA_DECODER, more=MORE),
        "always": byte_fallback(normalizers.Nmt(), meta("always"), decoders.Metaspace(), more=MORE),
        "never": byte_fallback(normalizers.NFKC(), meta("never"), decoders.Metaspace(prepend_scheme="never")),
        "gemma": byte_fallback(normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"), GEMMA_DECODER),
        "some_bytes": byte_fallback(llama, None, LLAMA_DECODER, fuse_unk=False, tokens=LLAMA_TOKENS + BYTES[:0xe0]),
        "delimited": byte_fallback(normalizers.Lowercase(), pre_tokenizers.CharDelimiterSplit("e"), None),
    }
    albert = [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), precompiled()]
    found |= {
        "t5": unigram(precompiled(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta("always")])),
        "albert": unigram(normalizers.Sequence(albert), meta("always")),
        "unigram_bytes": unigram(normalizers.Replace(Regex(" {2,}"), " "), meta("first"), tokens=["<pad>", "<unk>", "</s>", *BYTES]),
        "unigram_lines": unigram(precompiled(), meta("never", split=False)),
    }
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        found[f"split_{behavior}"] = word_piece(normalizers.Strip(left=False), splits(behavior))
    return found


def trainer_of(kind, vocab_size):
    options = {"vocab_size": vocab_size, "special_tokens": kind.tokens, "show_progress": False, **kind.trainer}
    if isinstance(kind.model, models.WordPiece):
        return trainers.WordPieceTrainer(**options)
    if isinstance(kind.model, models.WordLevel):
        return trainers.WordLevelTrainer(**options)
    if isinstance(kind.model, models.Unigram):
        return trainers.UnigramTrainer(**options)
    return trainers.BpeTrainer(**options)


def make(kind, corpus, vocab_size):
    tokenizer = Tokenizer(kind.model)
    if kind.normalizer is not None:
        tokenizer.normalizer = kind.normalizer
    # Where texts are not cut into words, the trainer would learn whole lines, and take minutes.
    trains_on_words = isinstance(kind.model, models.Unigram) or isinstance(kind.model, models.BPE) and kind.model.byte_fallback
    tokenizer.pre_tokenizer = meta("always") if trains_on_words else kind.pre_tokenizer
    if isinstance(kind.model, models.Unigram):  # whose trainer is the slowest
        corpus = corpus[:10] + corpus[-100:]
    tokenizer.train_from_iterator(corpus, trainer_of(kind, vocab_size))
    tokenizer.pre_tokenizer = kind.pre_tokenizer or pre_tokenizers.Sequence([])
    tokenizer.add_special_tokens(special(kind.tokens[:5]) + [t for t in kind.more if t.special])
    tokenizer.add_tokens([t for t in kind.more if not t.special])
    if kind.decoder is not None:
        tokenizer.decoder = kind.decoder
    if kind.processor is not None:
        tokenizer.post_processor = kind.processor(tokenizer)
    if BYTES[0] not in kind.tokens or not isinstance(kind.model, models.Unigram):
        return tokenizer
    spec = json.loads(tokenizer.to_str())
    spec["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(spec))


def byte_offsets(text):
    """At which byte each character begins."""
    places = [0]
    for c in text:
        places.append(places[-1] + len(c.encode()))
    return places


def as_row(encoding, texts):
    places = [byte_offsets(text) for text in texts]
    # A part cut off may not know which of its tokens are of the second text.
    known = len(texts) == 1 or encoding.n_sequences == 2
    sequences = [None if special else s or 0 for s, special in zip(encoding.sequence_ids, encoding.special_tokens_mask)]
    offsets = [[0, 0] if s is None else [places[s][b], places[s][e]] for s, (b, e) in zip(sequences, encoding.offsets)] if known else None
    return {"ids": encoding.ids, "types": encoding.type_ids, "special": encoding.special_tokens_mask, "mask": encoding.attention_mask,
            "words": [-1 if w is None else w for w in encoding.word_ids], "offsets": offsets,
            "parts": [as_row(part, texts) for part in encoding.overflowing]}


def encoding_case(tokenizer, rng, first, second):
    """What an encoding by random options holds."""
    options = {"special": rng.random() < 0.8, "max_length": rng.choice([0, 0, 12, 20, 33]), "stride": rng.randrange(3),
               "strategy": rng.choice(["longest_first", "only_first", "only_second"]), "left": rng.random() < 0.3,
               "pad_to": rng.choice([0, 0, 24]), "multiple": rng.choice([0, 0, 8]), "pad_left": rng.random() < 0.3}
    texts = [first] if second is None else [first, second]
    if second is None and options["strategy"] == "only_second":
        options["strategy"] = "only_first"
    if options["max_length"] and options["strategy"] != "longest_first":  # `tokenizers` panics at a stride without room
        cut = texts[options["strategy"] == "only_second"]
        room = options["max_length"] - len(tokenizer.encode(*texts, add_special_tokens=options["special"]).ids) + \
            len(tokenizer.encode(cut, add_special_tokens=False).ids)
        options["stride"] = max(0, min(options["stride"], room - 1))
    if options["max_length"]:
        tokenizer.enable_truncation(options["max_length"], stride=options["stride"], strategy=options["strategy"],
                                    direction="left" if options["left"] else "right")
    if options["pad_to"] or options["multiple"]:
        tokenizer.enable_padding(direction="left" if options["pad_left"] else "right", pad_id=7, pad_type_id=2,
                                 length=options["pad_to"] or None, pad_to_multiple_of=options["multiple"] or None)
    try:
        encoding = tokenizer.encode(*texts, add_special_tokens=options["special"])
    except Exception as error:  # the text that is to be cut is too short
        return {"options": options, "texts": texts, "error": str(error)}
    finally:
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return {"options": options, "texts": texts, "encoding": as_row(encoding, texts)}
