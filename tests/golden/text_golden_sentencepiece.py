"""Folders with SentencePiece's tokenizer.model alone, trained here, and what transformers' AutoTokenizer makes of them."""
import io
import json

import sentencepiece
from transformers import AutoTokenizer

BPE = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
       "user_defined_symbols": ["<tool>", "\t\t"], "control_symbols": ["<ctl>"]}
GEMMA = {**BPE, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3}
T5 = {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}

# name: how the model is trained, tokenizer_config.json, config.json, the file's name
FOLDERS = {
    "spm_llama": (BPE, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}, {"model_type": "llama"}, "tokenizer.model"),
    "spm_llama_legacy": (BPE, {"tokenizer_class": "LlamaTokenizerFast", "legacy": True, "add_bos_token": True, "add_eos_token": True,
                               "pad_token": "</s>"}, {"model_type": "llama"}, "tokenizer.model"),
    "spm_llama_bare": (BPE, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, {}, "tokenizer.model"),
    "spm_mistral": (BPE, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}, {"model_type": "mistral"}, "tokenizer.model"),
    "spm_gemma": (GEMMA, {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True},
                  {"model_type": "gemma"}, "tokenizer.model"),
    "spm_gemma_names": (GEMMA, {}, {"model_type": "gemma2"}, "tokenizer.model"),
    "spm_t5": (T5, {"tokenizer_class": "T5Tokenizer"}, {"model_type": "t5"}, "spiece.model"),
    "spm_t5_few": (T5, {"extra_ids": 7}, {"model_type": "t5"}, "spiece.model"),
    "spm_bpe": (BPE, {}, {}, "tokenizer.model"),
    "spm_unigram": ({**T5, "byte_fallback": True, "bos_id": 3}, {"tokenizer_class": "PreTrainedTokenizerFast"}, {}, "tokenizer.model"),
}


def write_model(folder, name, sentences):
    """The folder without what is compared; returns the text of the tokenizer.json that AutoTokenizer makes of it."""
    training, tokenizer_config, config, file = FOLDERS[name]
    folder.mkdir(parents=True, exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=model, vocab_size=1500, minloglevel=3,
                                             hard_vocab_limit=False, num_threads=1, **training)
    (folder / file).write_bytes(model.getvalue())
    for path, content in (("tokenizer_config.json", tokenizer_config), ("config.json", config)):
        (folder / path).unlink(missing_ok=True)
        if content:
            (folder / path).write_text(json.dumps(content), encoding="utf-8")
    return AutoTokenizer.from_pretrained(folder).backend_tokenizer.to_str()


def finish(folder, name):
    """Takes away what the other kinds of folders have."""
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    if FOLDERS[name][1]:
        (folder / "tokenizer_config.json").write_text(json.dumps(FOLDERS[name][1]), encoding="utf-8")
