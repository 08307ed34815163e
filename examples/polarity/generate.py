#!/usr/bin/env python3
"""Writes reviews that a small grammar makes, as Amazon Polarity's CSV has them, and a tiny DistilBERT's folder.

  examples/polarity/generate.py --out runs/polarity/data [--seed 42] [--train 8000] [--test 1000] [--labels numbers|names|from_0]

OUT/train.csv and OUT/test.csv: label, title, content, without a line of names; 1 is negative, 2 positive (`--labels`: other
ways to say it). OUT/student: config.json and vocab.txt, no weights; OUT/teacher: the same, larger. The same bytes
everywhere for the same seed; standard library only.

What a review says of the article decides its label. Two fifths of what it says is negated ("is not flimsy"), and a third
of its sentences first concede the opposite ("although the lid is dull, ..."), so that no word by itself tells the label. No review
is in both files.
"""
import argparse
import csv
import json
import os
import random

NOUNS = ("battery", "screen", "sound", "cable", "manual", "story", "plot", "ending", "cover", "lens", "handle", "motor", "zipper",
         "fabric", "lid", "print")
ADJECTIVES = (("awful", "flimsy", "dull", "noisy", "broken", "boring", "cheap", "ugly", "weak", "slow"),
              ("great", "sturdy", "clear", "sharp", "lovely", "reliable", "charming", "comfortable", "bright", "quiet"))
SAID = ("the {noun} is {adjective}", "i found the {noun} {adjective}", "the {noun} turned out to be {adjective}")
NEGATED = ("the {noun} is not {adjective}", "the {noun} is never {adjective}", "i would not call the {noun} {adjective}",
           "nobody could say that the {noun} is {adjective}")
CONCEDED = ("although {conceded} , {said}", "{conceded} , but {said}", "{said} , even if {conceded}")
NEUTRAL = ("i bought it in may", "it came with a spare {noun}", "my sister wanted one", "we have had it for a year")
TITLES = ("a {adjective} {noun}", "{adjective} !", "what a {adjective} {noun}")
NEGATED_TITLES = ("no {adjective} {noun}", "not {adjective} !", "by no means a {adjective} {noun}")
NEUTRAL_TITLES = ("my thoughts", "about the {noun}", "after a year")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES = {"student": {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4},
         "teacher": {"dim": 96, "hidden_dim": 256, "n_layers": 4, "n_heads": 4}}
LABELS = {"numbers": ("1", "2"), "names": ("negative", "positive"), "from_0": ("0", "1")}


def said(rng, positive, plain, negated):
    """Something that holds of a positive or negative article, with an adjective of its kind, or without one of the other."""
    negates = rng.random() < 0.4
    forms = negated if negates else plain
    return rng.choice(forms).format(noun=rng.choice(NOUNS), adjective=rng.choice(ADJECTIVES[positive != negates]))


def sentence(rng, positive):
    if rng.random() < 0.2:
        return rng.choice(NEUTRAL).format(noun=rng.choice(NOUNS))
    main = said(rng, positive, SAID, NEGATED)
    if rng.random() < 0.33:
        return rng.choice(CONCEDED).format(said=main, conceded=said(rng, not positive, SAID, NEGATED))
    return main


def review(rng):
    """(positive, title, content)"""
    positive = rng.random() < 0.5
    neutral = rng.random() < 0.25
    title = rng.choice(NEUTRAL_TITLES).format(noun=rng.choice(NOUNS)) if neutral else said(rng, positive, TITLES, NEGATED_TITLES)
    # The first sentence is never neutral, so each review has a label.
    content = [said(rng, positive, SAID, NEGATED)] + [sentence(rng, positive) for _ in range(rng.randint(0, 3))]
    rng.shuffle(content)
    return positive, title, " . ".join(content) + " ."


def write_rows(path, rows, labels):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows((labels[positive], title, content) for positive, title, content in rows)


def vocabulary():
    texts = [*NOUNS, *ADJECTIVES[0], *ADJECTIVES[1], *SAID, *NEGATED, *CONCEDED, *NEUTRAL, *TITLES, *NEGATED_TITLES,
             *NEUTRAL_TITLES, "."]
    return [*SPECIAL, *sorted({word for text in texts for word in text.split() if "{" not in word})]


def write_model(folder, sizes, words):
    os.makedirs(folder, exist_ok=True)
    config = {"architectures": ["DistilBertForSequenceClassification"], "model_type": "distilbert", "vocab_size": len(words),
              **sizes, "max_position_embeddings": 128, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.1,
              "seq_classif_dropout": 0.1, "initializer_range": 0.05, "pad_token_id": 0,
              "id2label": {"0": "negative", "1": "positive"}, "label2id": {"negative": 0, "positive": 1}}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(config, indent=2) + "\n")
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(words) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--train", type=int, default=8000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--labels", choices=sorted(LABELS), default="numbers")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    rng = random.Random(options.seed)
    rows = {}
    while len(rows) < options.train + options.test:
        rows[review(rng)] = None
    rows = list(rows)
    write_rows(os.path.join(options.out, "test.csv"), rows[:options.test], LABELS[options.labels])
    write_rows(os.path.join(options.out, "train.csv"), rows[options.test:], LABELS[options.labels])
    for name, sizes in SIZES.items():
        write_model(os.path.join(options.out, name), sizes, vocabulary())
    print(f"{options.train} and {options.test} reviews, and two models' shapes, in {options.out}")


if __name__ == "__main__":
    main()
