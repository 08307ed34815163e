"""The peer of squad: transformers' Trainer with BertForQuestionAnswering, as run_qa.py trains it.  hf_qa.py FOLDER [--make] [--steps N] ...

FOLDER is a job of bench/suite/recipes.py: train.jsonl (SQuAD's rows, each of one window), model/vocab.txt, and with --make the model's
first weights.
"""
import json
import os

from hf_trainer import train
from recipe_job import options_of
from transformers import AutoModelForQuestionAnswering, BertConfig, BertForQuestionAnswering, BertTokenizer, default_data_collator


def feature(tokenizer, row, length):
    """Where the answer's first and last token are, as run_qa.py's prepare_train_features finds it."""
    encoding = tokenizer(row["question"], row["context"], truncation="only_second", max_length=length, return_offsets_mapping=True,
                         padding="max_length")
    offsets, texts = encoding.pop("offset_mapping"), encoding.sequence_ids()
    begin = row["answers"]["answer_start"][0]
    end = begin + len(row["answers"]["text"][0])
    inside = [i for i, text in enumerate(texts) if text == 1 and offsets[i][0] < end and offsets[i][1] > begin]
    return {**encoding, "start_positions": inside[0], "end_positions": inside[-1]}


def main():
    options, job = options_of(__doc__)
    folder = os.path.join(options.job, "model")
    if options.make:
        BertForQuestionAnswering(BertConfig(**job["model"])).save_pretrained(folder)
        return
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if options.no_dropout else {}
    model = AutoModelForQuestionAnswering.from_pretrained(folder, **dropout)
    tokenizer = BertTokenizer(vocab=os.path.join(folder, "vocab.txt"))
    with open(os.path.join(options.job, "train.jsonl"), encoding="utf-8") as file:
        rows = [feature(tokenizer, json.loads(line), job["length"]) for line in file]
    train(options, job, model, rows, default_data_collator)


main()
