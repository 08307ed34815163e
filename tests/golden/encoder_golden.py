"""Tiny random BERT, DistilBERT and RoBERTa models by transformers, with what they compute; nn_golden.py calls it.

FOLDER/NAME/model is a folder that LoadEncoder reads; FOLDER/NAME/golden.safetensors holds, in float32:
  input_ids [B, T], logits [B, T, V], hidden [B, T, H], grad.PARAMETER
        plain rows; the gradient of the summed cross-entropy of labels = input_ids shifted by one, in a ring, plus the sum
        of the squared hidden states
  packed_ids [B, T], packed_starts [B, S] (-1: no more), packed_logits [B, T, V] (each document on its own, zero in the
  padding), packed_grad.PARAMETER
        several documents a row
"""
import shutil

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

STARTS = [[0, 7, 8, 19, 24], [0, 24], [0, 11, 21, 21], [0, 1, 12, 23]]


def bert(**fields):
    return transformers.BertForMaskedLM(transformers.BertConfig(**{**dict(
        vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=40), **fields}))


def distilbert(**fields):
    return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**{**dict(
        vocab_size=101, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=40), **fields}))


def roberta(**fields):
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**{**dict(
        vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5), **fields}))


# name: (model, whether it is saved as BERT's first folders are)
CASES = {
    "bert": (lambda: bert(), False),
    "bert_epsilon": (lambda: bert(layer_norm_eps=0.1, type_vocab_size=1, num_attention_heads=2), False),
    "bert_older": (lambda: bert(pad_token_id=7), True),
    "distilbert": (lambda: distilbert(), False),
    "distilbert_no_padding": (lambda: distilbert(pad_token_id=None, n_layers=1), False),
    "distilbert_older": (lambda: distilbert(), True),
    "roberta": (lambda: roberta(), False),
    "roberta_older": (lambda: roberta(pad_token_id=5, max_position_embeddings=46, type_vocab_size=2), True),
}


def to_older_form(path, model_type):
    """gamma and beta, tied weights stored twice, and what takes no part in the masked language model."""
    weights = load_file(path)
    if model_type == "bert":
        weights = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
                   for k, v in weights.items()}
        weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
        weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"].clone()
        weights["bert.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
        weights["bert.pooler.dense.weight"] = torch.randn(32, 32)
        weights["cls.seq_relationship.bias"] = torch.randn(2)
    elif model_type == "roberta":
        weights["lm_head.decoder.weight"] = weights["roberta.embeddings.word_embeddings.weight"].clone()
        weights["lm_head.decoder.bias"] = weights["lm_head.bias"].clone()
        weights["roberta.embeddings.position_ids"] = torch.arange(46).unsqueeze(0)
        weights["roberta.pooler.dense.weight"] = torch.randn(32, 32)
    else:
        weights["vocab_projector.weight"] = weights["distilbert.embeddings.word_embeddings.weight"].clone()
    save_file(weights, path, metadata={"format": "pt"})


def loss_of(out, ids):
    labels = ids.roll(-1, 1)
    loss = F.cross_entropy(out.logits.reshape(-1, out.logits.shape[-1]), labels.reshape(-1), reduction="sum")
    return loss + out.hidden_states[-1].square().sum()


def gradients(model, prefix):
    found = {f"{prefix}.{name}": p.grad.clone() if p.grad is not None else torch.zeros_like(p)
             for name, p in model.named_parameters()}
    model.zero_grad()
    return found


def packed(model, vocabulary):
    ids = torch.randint(0, vocabulary, (len(STARTS), 24))
    logits = torch.zeros(*ids.shape, vocabulary)
    loss = 0
    for row, borders in enumerate(STARTS):
        for begin, end in zip(borders, borders[1:]):
            if begin < end:
                document = ids[row : row + 1, begin:end]
                out = model(document, output_hidden_states=True)
                logits[row, begin:end] = out.logits[0].detach()
                loss = loss + loss_of(out, document)
    loss.backward()
    width = max(map(len, STARTS))
    padded = torch.tensor([s + [-1] * (width - len(s)) for s in STARTS])
    return {"packed_ids": ids, "packed_starts": padded, "packed_logits": logits} | gradients(model, "packed_grad")


def golden(model):
    ids = torch.randint(0, model.config.vocab_size, (3, 40))
    if model.config.pad_token_id is not None:
        ids[0, 3] = model.config.pad_token_id  # its row of the embedding gets no gradient as an input
    out = model(ids, output_hidden_states=True)
    loss_of(out, ids).backward()
    values = {"input_ids": ids, "logits": out.logits.detach(), "hidden": out.hidden_states[-1].detach()}
    return values | gradients(model, "grad") | packed(model, model.config.vocab_size)


def write(root, randomise, save):
    """`randomise` and `save`: as for decoders."""
    shutil.rmtree(root, ignore_errors=True)
    for seed, (name, (make, older)) in enumerate(CASES.items()):
        torch.manual_seed(100 + seed)
        folder = root / name / "model"
        model = make()
        randomise(model)
        save(model, folder)
        model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32,
                                                                  attn_implementation="eager").eval()
        if older:
            to_older_form(folder / "model.safetensors", model.config.model_type)
        save_file({k: v.contiguous() for k, v in golden(model).items()}, root / name / "golden.safetensors")
    print(f"{len(CASES)} models in {root}")
