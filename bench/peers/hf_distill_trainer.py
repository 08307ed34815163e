"""The peer of distilbert: transformers' Trainer with DistilBERT's three losses.  hf_distill_trainer.py FOLDER [--make] [--steps N] ...

FOLDER is a job of bench/suite/recipes.py: train.jsonl (texts of one piece each), teacher/ and model/ with a vocab.txt each, and with
--make the first weights of both. Without dropout every word is masked, so that chance has no part in the losses that are compared.
"""
import json
import os

import torch
import torch.nn.functional as F
from hf_trainer import WithLosses, train
from recipe_job import options_of
from transformers import (BertConfig, BertForMaskedLM, BertTokenizer, DataCollatorForLanguageModeling, DistilBertConfig,
                          DistilBertForMaskedLM)

TEMPERATURE, KL, MLM, COSINE = 3.0, 0.5, 2.0, 1.0


class Distils(WithLosses):
    def __init__(self, *arguments, teacher, **keywords):
        super().__init__(*arguments, **keywords)
        self.teacher, self.losses = teacher, []

    def compute_loss(self, model, inputs, return_outputs=False, **keywords):
        labels = inputs.pop("labels")
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self.args.bf16):
            of_teacher = self.teacher(**inputs, output_hidden_states=True)
        out = model(**inputs, output_hidden_states=True)
        kl = F.kl_div(F.log_softmax(out.logits.float().flatten(0, 1) / TEMPERATURE, -1),
                      F.softmax(of_teacher.logits.float().flatten(0, 1) / TEMPERATURE, -1), reduction="batchmean") * TEMPERATURE**2
        mlm = F.cross_entropy(out.logits.float().flatten(0, 1), labels.flatten())
        states, wanted = out.hidden_states[-1].float().flatten(0, 1), of_teacher.hidden_states[-1].float().flatten(0, 1)
        cosine = F.cosine_embedding_loss(states, wanted, torch.ones(len(states)))
        loss = KL * kl + MLM * mlm + COSINE * cosine
        self.losses.append(loss.item())
        return (loss, out) if return_outputs else loss


def main():
    options, job = options_of(__doc__)
    teacher_folder, folder = os.path.join(options.job, "teacher"), os.path.join(options.job, "model")
    if options.make:
        BertForMaskedLM(BertConfig(**job["teacher"])).save_pretrained(teacher_folder)
        DistilBertForMaskedLM(DistilBertConfig(**job["model"])).save_pretrained(folder)
        return
    dropout = {"dropout": 0.0, "attention_dropout": 0.0} if options.no_dropout else {}
    masks = {"mlm_probability": 1.0, "mask_replace_prob": 1.0, "random_replace_prob": 0.0} if options.no_dropout else {}
    tokenizer = BertTokenizer(vocab=os.path.join(folder, "vocab.txt"))
    with open(os.path.join(options.job, "train.jsonl"), encoding="utf-8") as file:
        rows = [dict(tokenizer(json.loads(line)["text"], truncation=True, max_length=job["length"], return_token_type_ids=False))
                for line in file]
    train(options, job, DistilBertForMaskedLM.from_pretrained(folder, **dropout), rows, DataCollatorForLanguageModeling(tokenizer, **masks),
          trainer_class=Distils, teacher=BertForMaskedLM.from_pretrained(teacher_folder).eval())


main()
