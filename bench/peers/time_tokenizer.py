"""Times a peer's tokenizer: time_tokenizer.py PEER FOLDER FILE THREADS. Prints a line JSON {mb_s, tokens, checksum}.

FILE holds texts that end with a zero byte. The checksum is distill_tokenize's: the sum of (id + 1) times the number of its
token, from 1, in its text.
"""
import json
import os
import sys
import time

import numpy


def of_tokenizers(folder, threads):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    return lambda texts: [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def of_tiktoken(folder, threads):
    import tiktoken
    with open(f"{folder}/tokenizer.json", encoding="utf-8") as file:
        spec = json.load(file)
    from quicktok._import_core import gpt2_byte_decoder
    byte_of = gpt2_byte_decoder()
    ranks = {bytes(byte_of[c] for c in token): rank for token, rank in spec["model"]["vocab"].items()}
    pattern = spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    encoding = tiktoken.Encoding(name="timed", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: encoding.encode_ordinary_batch(texts, num_threads=threads)


def of_quicktok(folder, threads):
    import quicktok
    name = os.path.basename(folder)
    encoding = quicktok.get_encoding({"cl100k": "cl100k_base", "o200k": "o200k_base"}.get(name, name))

    def encode(texts):
        tokens, offsets = encoding.encode_batch(texts, threads=threads)
        return numpy.split(tokens, offsets[1:-1])
    return encode


def of_rs_bpe(folder, threads):
    import rs_bpe
    encoding = {"cl100k": rs_bpe.openai.cl100k_base, "o200k": rs_bpe.openai.o200k_base}[os.path.basename(folder)]()
    if threads == 1:
        return lambda texts: encoding.encode_batch(texts)[0]
    options = rs_bpe.openai.ParallelOptions(min_batch_size=1, chunk_size=64, max_threads=threads)
    return lambda texts: encoding.encode_batch_parallel(texts, options)[0]


def of_sentencepiece(folder, threads):
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model")
    return lambda texts: model.encode(texts, num_threads=threads)


PEERS = {"tokenizers": of_tokenizers, "tiktoken": of_tiktoken, "quicktok": of_quicktok, "rs-bpe": of_rs_bpe,
         "sentencepiece": of_sentencepiece}


def checksum(ids):
    total = 0
    for row in ids:
        values = numpy.asarray(row, dtype=numpy.uint64) + numpy.uint64(1)
        total += int((values * numpy.arange(1, len(values) + 1, dtype=numpy.uint64)).sum(dtype=numpy.uint64))
    return f"{total % (1 << 64):016x}"


def main(peer, folder, path, threads):
    with open(path, encoding="utf-8", newline="") as file:
        content = file.read()
    texts = content.split("\0")[:-1]
    encode = PEERS[peer](folder, threads)
    encode(texts[:20])  # what is made at the first call
    began = time.perf_counter()
    ids = encode(texts)
    seconds = time.perf_counter() - began
    print("JSON " + json.dumps({"mb_s": len(content.encode()) / seconds / 1e6, "tokens": sum(map(len, ids)), "checksum": checksum(ids)}))


main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
