"""Tiny random BERT, DistilBERT and RoBERTa models with heads by transformers, with what they compute; nn_golden.py calls it.

FOLDER/NAME/model is a folder that LoadClassifier or LoadSpanModel reads; FOLDER/NAME/golden.safetensors holds:
  input_ids [B, T], lengths [B] (what follows is padding), token_types [B, T] (not DistilBERT)
and where the folder has the head already, in float32:
  logits [B, L] or [B, T, 2] (0 in the padding), grad.PARAMETER of the sum of their sines
  states_dropped, attention_dropped, head_dropped: the logits in training where all of that is dropped
"""
import shutil

import torch
import transformers
from safetensors.torch import save_file

SIZES = {"bert": dict(vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                      max_position_embeddings=40),
         "distilbert": dict(vocab_size=101, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=40),
         "roberta": dict(vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                         max_position_embeddings=40, type_vocab_size=2)}
CONFIGS = {"bert": "BertConfig", "distilbert": "DistilBertConfig", "roberta": "RobertaConfig"}
LENGTHS = [24, 7, 23, 1]
# What each family calls the probabilities, and the one of a head.
STATES = {"bert": "hidden_dropout_prob", "distilbert": "dropout", "roberta": "hidden_dropout_prob"}
ATTENTION = {"bert": "attention_probs_dropout_prob", "distilbert": "attention_dropout",
             "roberta": "attention_probs_dropout_prob"}
HEAD = {"BertForSequenceClassification": "classifier_dropout", "DistilBertForSequenceClassification": "seq_classif_dropout",
        "DistilBertForQuestionAnswering": "qa_dropout", "RobertaForSequenceClassification": "classifier_dropout"}

# name: (class, fields)
CASES = {
    "bert_classifier": ("BertForSequenceClassification", dict(num_labels=3)),
    "bert_two_labels": ("BertForSequenceClassification", dict(type_vocab_size=3)),
    "bert_span": ("BertForQuestionAnswering", dict()),
    "distilbert_classifier": ("DistilBertForSequenceClassification", dict(num_labels=5)),
    "distilbert_span": ("DistilBertForQuestionAnswering", dict()),
    "new_bert_masked": ("BertForMaskedLM", dict()),
    "new_bert_body": ("BertModel", dict()),
    "new_distilbert_masked": ("DistilBertForMaskedLM", dict()),
    "new_distilbert_body": ("DistilBertModel", dict(num_labels=3)),
    "roberta_classifier": ("RobertaForSequenceClassification", dict(num_labels=3)),
    "roberta_span": ("RobertaForQuestionAnswering", dict(type_vocab_size=1)),
    "new_roberta_masked": ("RobertaForMaskedLM", dict()),
    "new_roberta_body": ("RobertaModel", dict()),
}


def family(architecture):
    return next(kind for kind in ("distilbert", "roberta", "bert") if architecture.lower().startswith(kind))


def make(architecture, fields):
    kind = family(architecture)
    config = getattr(transformers, CONFIGS[kind])(**{**SIZES[kind], **fields})
    return getattr(transformers, architecture)(config)


def inputs(model):
    ids = torch.randint(2, 101, (len(LENGTHS), max(LENGTHS)))  # none is padding
    values = {"input_ids": ids, "lengths": torch.tensor(LENGTHS)}
    if family(type(model).__name__) != "distilbert":
        values["token_types"] = torch.randint(0, model.config.type_vocab_size, ids.shape)
    return values


def logits_of(model, values):
    mask = (torch.arange(values["input_ids"].shape[1]) < values["lengths"].unsqueeze(1)).long()
    types = {"token_type_ids": values["token_types"]} if "token_types" in values else {}
    out = model(values["input_ids"], attention_mask=mask, **types)
    if hasattr(out, "logits"):
        return out.logits
    return torch.stack([out.start_logits, out.end_logits], -1) * mask.unsqueeze(-1)


def dropped(folder, architecture, values, field):
    """The logits in training where everything that `field` names is dropped, and nothing else."""
    kind = family(architecture)
    none = {name: 0.0 for name in [STATES[kind], ATTENTION[kind], *([HEAD[architecture]] if architecture in HEAD else [])]}
    config = transformers.AutoConfig.from_pretrained(folder, **{**none, **({field: 1.0} if field else {})})
    model = getattr(transformers, architecture).from_pretrained(folder, config=config, attn_implementation="eager")
    with torch.no_grad():
        return logits_of(model.train(), values)


def golden(folder, architecture, values):
    model = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager").eval()
    logits = logits_of(model, values)
    logits.sin().sum().backward()
    kind = family(architecture)
    out = {"logits": logits.detach(), "states_dropped": dropped(folder, architecture, values, STATES[kind]),
           "attention_dropped": dropped(folder, architecture, values, ATTENTION[kind]),
           "head_dropped": dropped(folder, architecture, values, HEAD.get(architecture))}
    return out | {f"grad.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}


def write(root, randomise, save):
    """`randomise` and `save`: as for decoders."""
    shutil.rmtree(root, ignore_errors=True)
    for seed, (name, (architecture, fields)) in enumerate(CASES.items()):
        torch.manual_seed(200 + seed)
        folder = root / name / "model"
        model = make(architecture, fields)
        randomise(model)
        save(model, folder)
        values = inputs(model)
        if not name.startswith("new_"):
            values |= golden(folder, architecture, values)
        save_file({k: v.contiguous() for k, v in values.items()}, root / name / "golden.safetensors")
    print(f"{len(CASES)} models in {root}")
