"""Reviews of three classes as CSV and Parquet, tiny classifiers of both families, and what transformers and scikit-learn say of
them.  polarity_golden.py FOLDER

FOLDER/rows.csv has labels 1 to 3 under a line of names, bare.csv the same without that line, rows.parquet labels 0 to 2. FOLDER/
bert/ and distilbert/ are models with tokenizers. FOLDER/golden.json: for NAME/FORM (pair, joined) the ids (and types) of
each row, cut at `max_length`, and of the model's predictions the mean cross-entropy and, by scikit-learn, accuracy, the confusion
matrix's sums by row (samples) and by column (predicted), and its diagonal (correct).
"""
import csv
import json
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers
from sklearn.metrics import accuracy_score, confusion_matrix

OUT = Path(sys.argv[1])
ROWS, MAX_LENGTH = 61, 24
WORDS = "good bad fair sound screen not very the is it , . ! über naïve 日本 unhappily re-read 5/5".split()
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "un", "##happi", "##ly", "re", "-", "read", "5", "/", "uber", "naive", "日", "本"]
SIZES = {"bert": ("Bert", dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)),
         "distilbert": ("DistilBert", dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4))}


def write_rows():
    """Some titles are empty, some texts are longer than what a model takes, alone or together."""
    def text(low, high):
        return " ".join(random.choice(WORDS) for _ in range(random.randint(low, high)))

    rows = [(random.randrange(3), text(0, 4) if i % 7 else text(10, 20), text(1, 12) if i % 5 else text(20, 40)) for i in range(ROWS)]
    for name, head in ("rows.csv", [("label", "title", "content")]), ("bare.csv", []):
        with open(OUT / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(head + [(label + 1, title, content) for label, title, content in rows])
    pq.write_table(pa.table({"label": pa.array([row[0] for row in rows], pa.int64()), "title": [row[1] for row in rows],
                             "content": [row[2] for row in rows]}), OUT / "rows.parquet")
    return rows


def make_model(name):
    """Of large weights, so that rows differ in what is predicted for them."""
    family, sizes = SIZES[name]
    config = getattr(transformers, f"{family}Config")(vocab_size=len(PIECES), max_position_embeddings=MAX_LENGTH, num_labels=3,
                                                      initializer_range=0.4, **sizes)
    folder = OUT / name
    getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()


def judge(model, encodings, labels):
    with torch.no_grad():
        logits = torch.cat([model(**{key: torch.tensor([value]) for key, value in row.items()}).logits for row in encodings])
    predicted = logits.argmax(-1).numpy()
    confusion = confusion_matrix(labels, predicted, labels=[0, 1, 2])
    return {"loss": torch.nn.functional.cross_entropy(logits, torch.tensor(labels)).item(),
            "accuracy": float(accuracy_score(labels, predicted)), "samples": confusion.sum(1).tolist(),
            "predicted": confusion.sum(0).tolist(), "correct": confusion.diagonal().tolist()}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    random.seed(5)
    torch.manual_seed(5)
    rows = write_rows()
    golden = {"max_length": MAX_LENGTH}
    for name in SIZES:
        model = make_model(name)
        tokenizer = transformers.BertTokenizer(vocab=str(OUT / name / "vocab.txt"))
        for form in "pair", "joined":
            texts = [(row[1], row[2]) if form == "pair" else (f"{row[1]} {row[2]}",) for row in rows]
            encodings = [dict(tokenizer(*text, truncation=True, max_length=MAX_LENGTH, return_token_type_ids=name == "bert"))
                         for text in texts]
            golden[f"{name}/{form}"] = {"ids": [row["input_ids"] for row in encodings],
                                        "types": [row.get("token_type_ids", []) for row in encodings],
                                        **judge(model, encodings, [row[0] for row in rows])}
    assert len({tuple(case["predicted"]) for case in golden.values() if isinstance(case, dict)}) > 2, golden
    with open(OUT / "golden.json", "w", encoding="utf-8") as file:
        json.dump(golden, file)
    print(f"{len(golden) - 1} cases in {OUT}")


main()
