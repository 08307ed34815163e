"""Answers, their scores and windows of questions, as SQuAD's official scripts and transformers make them: squad_golden.py FOLDER
TRANSFORMERS_4, where the latter is the Python of scripts/setup that has transformers 4 (squad_transformers4.py says why).

FOLDER/normalize.json, pairs.json   texts and what is left of them; pairs with F1 (both versions) and exact match
FOLDER/scores.json                  whole data sets with predictions and all figures of them
FOLDER/decode.json                  logits of windows, and what run_qa.py makes of them, with several options
FOLDER/windows.json                 windows of transformers' tokenizer with return_overflowing_tokens, and where answers are
FOLDER/hub/plain_text/...parquet     the same questions as data sets of the hub have them, where pyarrow is there
FOLDER/answers.json                 answers of the question-answering pipeline, with the model of FOLDER/model
"""
import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import numpy as np
import torch
import transformers
from tokenizers import BertWordPieceTokenizer

import squad_decoding as decoding
import squad_scores as scores

OUT = Path(sys.argv[1])
OUT.mkdir(parents=True, exist_ok=True)
RNG = random.Random(20)
EDGES = ["", " ", "the", "The", "a", "an", "A", "the the", "theme", "another", "a-b", "the-end", "a.b", "U.S.A.", "an_the", "x_a",
         "a\u00e9", "\u00e9a", "a\u0301", "the\u00a0end", "the\u2014end", "it's", "\u201cthe\u201d", "\u0130stanbul", "STRASSE", "Stra\u00dfe",
         "\u039f\u0394\u039f\u03a3", "\u03a3", "\u03a3\u03a3", "\u039f\u03a3, \u039f\u03a3A", "\u0391.\u03a3", "\u01c5", "\u2126", "1,000", "1.5", "\u00bd a", "\u0661", "\u2160 the", "a\u4e2d", "\u4e2d a",
         "\u3000the\u3000", "\x1cthe\x1d", "\x85a", "tab\tand\nline", "\u200bthe", "the\u200b", "!!!", "---", "$5", "5$ the", "\U0001f642 a", "a\U0001f642",
         "A.", "'a'", "\u2019a\u2019", "the\u02bc", "\uff21", "\uff0ethe", "a\u0327", "\u0345a"]
PIECES = ["a", "an", "the", "The", "A", " ", " ", " ", ".", ",", "-", "'", "_", "e", "m", "n", "th", "\u00e9", "\u00df", "\u03a3", "\u0391", "\u0130", "1",
          "\u0663", "\u00bd", "\u4e2d", "\u00a0", "\u3000", "\t", "\u200b", "\u2014", "\u2019", "\u0301", "\U0001f642", "city", "old", "Rome"]


def text():
    return RNG.choice(EDGES) if RNG.random() < 0.3 else "".join(RNG.choice(PIECES) for _ in range(RNG.randint(0, 9)))


def write(name, value):
    (OUT / name).write_text(json.dumps(value))


def write_scores():
    texts = EDGES + [text() for _ in range(4000)]
    write("normalize.json", [[t] for t in texts])
    pairs = []
    for _ in range(3000):
        a = text()
        b = RNG.choice([text, lambda: a, lambda: a + " " + text(), lambda: "the " + a.upper() + "!"])()
        pairs.append([a, b, scores.f1_score(a, b)])
    write("pairs.json", pairs)
    sets = []
    for case in range(40):
        v2 = case % 2 == 1
        qas, predictions, odds = [], {}, {}
        for number in range(RNG.randint(1, 30)):
            golds = [text() for _ in range(RNG.randint(0 if v2 and case % 4 == 1 else 1, 3))]
            qas.append({"id": f"q{number}", "answers": [{"text": gold} for gold in golds]})
            predictions[f"q{number}"] = RNG.choice([text(), "", RNG.choice(golds) if golds else ""])
            odds[f"q{number}"] = RNG.choice([RNG.uniform(-5, 5), 0.0])
        if case == 3:
            for qa in qas:
                qa["answers"] = []
        sets.append({"v2": v2, "golds": [[a["text"] for a in qa["answers"]] for qa in qas],
                     "predictions": list(predictions.values()), "odds": list(odds.values()),
                     "scores": None if v2 else scores.evaluate([{"paragraphs": [{"qas": qas}]}], predictions)})
    write("scores.json", sets)


def write_decode():
    rng = np.random.default_rng(1)
    cases = []
    for case in range(300):
        context = "".join(RNG.choice("ab c\u00e9\u4e2d\U0001f642") for _ in range(80))
        windows, features = [], []
        for _ in range(int(rng.integers(1, 4))):
            length, question = int(rng.integers(4, 40)), int(rng.integers(1, 3))
            scale = RNG.choice([0.5, 5.0])
            start, end = (rng.normal(0, scale, length).astype(np.float32) for _ in range(2))
            if case % 7 == 0:  # equal ones
                start, end = np.round(start), np.round(end)
            first, offsets = int(rng.integers(0, 20)), []
            for i in range(length):
                is_context = question < i < length - 1 and case % 11 != 0
                offsets.append((first + i, first + i + 1) if is_context else None)
            if case % 5 == 0:
                start[0], end[0] = 9, 9
            features.append((start, end, offsets))
            in_bytes = [[-1, -1] if span is None else [len(context[:place].encode()) for place in span] for span in offsets]
            windows.append({"start": start.tolist(), "end": end.tolist(), "offsets": in_bytes})
        how = {"version_2_with_negative": RNG.random() < 0.5, "n_best_size": RNG.choice([1, 3, 20, 100]),
               "max_answer_length": RNG.choice([1, 4, 30]), "null_score_diff_threshold": RNG.choice([0.0, 3.0, -2.0])}
        answer, n_best, odds = decoding.postprocess_one(context, features, **how)
        cases.append({"context": context, "windows": windows, **how, "answer": answer, "n_best": n_best, "null_odds": odds})
    write("decode.json", cases)


def make_tokenizer():
    words = "Where does Ada live? In old Lisbon, near the river; she's 32 years old. Who was born in 1950? K\u00f6ln na\u00efve unbelievable".split()
    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator([" ".join(words)] * 5, vocab_size=150, min_frequency=1, show_progress=False)
    (OUT / "model").mkdir(exist_ok=True)
    trained.save_model(str(OUT / "model"))
    tokenizer = transformers.BertTokenizerFast(vocab=str(OUT / "model" / "vocab.txt"), do_lower_case=True)
    tokenizer.save_pretrained(OUT / "model")
    return tokenizer, words


def question_and_context(words):
    context = " ".join(RNG.choice(words) for _ in range(RNG.randint(1, 70)))
    return RNG.choice(["", " ", "  "]) + " ".join(RNG.choice(words) for _ in range(RNG.randint(1, 6))), context


def span_in(offsets, sequence_ids, start_char, end_char):
    """As run_qa.py finds it, but that it looks no further than the context."""
    token_start = sequence_ids.index(1)
    token_end = len(sequence_ids) - 1 - sequence_ids[::-1].index(1)
    behind = token_end + 1
    if not (offsets[token_start][0] <= start_char and offsets[token_end][1] >= end_char):
        return 0, 0
    while token_start < behind and offsets[token_start][0] <= start_char:
        token_start += 1
    while offsets[token_end][1] >= end_char:
        token_end -= 1
    return token_start - 1, token_end + 1


def write_windows(tokenizer, words):
    cases = []
    for _ in range(150):
        question, context = question_and_context(words)
        start = RNG.randrange(len(context))
        answer = context[start: start + RNG.randint(1, 12)].strip() or context[0]
        start = context.index(answer)
        max_length, stride = RNG.choice([(64, 16), (48, 8), (200, 100), (40, 0)])
        encoded = tokenizer(question.lstrip(), context, truncation="only_second", max_length=max_length, stride=stride,
                            return_overflowing_tokens=True, return_offsets_mapping=True)
        windows = []
        for i, ids in enumerate(encoded["input_ids"]):
            offsets, sequence_ids = encoded["offset_mapping"][i], encoded.sequence_ids(i)
            windows.append({"ids": ids, "types": encoded["token_type_ids"][i], "span": span_in(offsets, sequence_ids, start, start + len(answer)),
                            "offsets": [[len(context[:a].encode()) for a in span] if of == 1 else [-1, -1]
                                        for span, of in zip(offsets, sequence_ids)]})
        cases.append({"question": question, "context": context, "answer": answer, "answer_start": start, "max_length": max_length,
                      "stride": stride, "windows": windows})
    write("windows.json", cases)
    return cases


def write_hub_rows(cases):
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    rows = [{"id": f"id{i}", "title": "Ada", "context": one["context"], "question": one["question"],
             "answers": {"text": [one["answer"]], "answer_start": [one["answer_start"]]}} for i, one in enumerate(cases)]
    schema = pa.schema([("id", pa.string()), ("title", pa.string()), ("context", pa.string()), ("question", pa.string()),
                        ("answers", pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))]))])
    folder = OUT / "hub" / "plain_text"
    folder.mkdir(parents=True, exist_ok=True)
    for split, some in ("train", rows[:100]), ("validation", rows[100:]):
        pq.write_table(pa.Table.from_pylist(some, schema), folder / f"{split}-00000-of-00001.parquet")


def write_model_and_questions(tokenizer, words):
    torch.manual_seed(3)
    model = transformers.BertForQuestionAnswering(transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64, initializer_range=0.5)).eval()
    model.save_pretrained(OUT / "model")
    write("answers.json", [dict(zip(("question", "context"), question_and_context(words))) for _ in range(60)])


def main():
    write_scores()
    write_decode()
    tokenizer, words = make_tokenizer()
    write_hub_rows(write_windows(tokenizer, words))
    write_model_and_questions(tokenizer, words)
    subprocess.run([sys.argv[2], Path(__file__).with_name("squad_transformers4.py"), OUT], check=True)
    print(f"in {OUT}: {', '.join(sorted(path.name for path in OUT.iterdir()))}")


main()
