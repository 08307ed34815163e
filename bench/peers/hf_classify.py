"""The peer of polarity: transformers' Trainer with DistilBertForSequenceClassification.  hf_classify.py FOLDER [--make] [--steps N] ...

FOLDER is a job of bench/suite/recipes.py: train.csv (label, text), model/vocab.txt, and with --make the model's first weights.
"""
import csv
import os

from hf_trainer import train
from recipe_job import options_of
from transformers import AutoModelForSequenceClassification, BertTokenizer, DataCollatorWithPadding, DistilBertConfig, DistilBertForSequenceClassification


def main():
    options, job = options_of(__doc__)
    folder = os.path.join(options.job, "model")
    if options.make:
        DistilBertForSequenceClassification(DistilBertConfig(**job["model"])).save_pretrained(folder)
        return
    dropout = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0} if options.no_dropout else {}
    model = AutoModelForSequenceClassification.from_pretrained(folder, **dropout)
    tokenizer = BertTokenizer(vocab=os.path.join(folder, "vocab.txt"))
    with open(os.path.join(options.job, "train.csv"), encoding="utf-8", newline="") as file:
        rows = [{**tokenizer(row["text"], truncation=True, max_length=job["length"], return_token_type_ids=False), "labels": int(row["label"])}
                for row in csv.DictReader(file)]
    train(options, job, model, rows, DataCollatorWithPadding(tokenizer))


main()
