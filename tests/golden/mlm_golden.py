"""What DataCollatorForLanguageModeling of transformers masks: mlm_golden.py FOLDER

FOLDER has a WordPiece tokenizer of BERT's kind, trained on the texts below; texts.jsonl with each text's ids, special tokens, and its words
as the collator finds them; draws.json with what the collator chose and wrote in many draws, token by token and by whole words.
"""
import json
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import numpy as np
from tokenizers import BertWordPieceTokenizer
from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

OUT = Path(sys.argv[1])
OUT.mkdir(parents=True, exist_ok=True)
DRAWS = 400  # of each text
TEXTS = ["The quick brown fox jumps over the lazy dog.", "Distillation of knowledge: students learn from teachers' logits.",
         "unbelievably internationalization misunderstandings", "It's 3.14159, isn't it?", "E-mail me at someone@example.com (please)!",
         "Köln, Straße, naïve façade", "日本語 のテキスト", "a b c d e f g h i j", "well-known state-of-the-art re-evaluation",
         "word", "!", "\"quoted\" 'words' -- and; signs/slashes", "Numbers 1000000 and 2,500,000 differ", "antidisestablishmentarianism",
         "spaces   between\twords\nand lines", "emoji 🙂 are unknown", "[MASK] stands in a text", "x" * 130 + " is too long for a piece"]

trained = BertWordPieceTokenizer(lowercase=True)
trained.train_from_iterator(TEXTS * 3, vocab_size=320, min_frequency=2, show_progress=False, wordpieces_prefix="##")
trained.save_model(str(OUT))
tokenizer = BertTokenizerFast(vocab=str(OUT / "vocab.txt"), do_lower_case=True)
tokenizer.save_pretrained(OUT)


def collate(collator, encoded):
    """One draw of a text, alone in its batch: ids and labels."""
    batch = collator([{key: list(value) for key, value in encoded.items()}])
    return batch["input_ids"][0].tolist(), batch["labels"][0].tolist()


tokens = DataCollatorForLanguageModeling(tokenizer, return_tensors="np", seed=1)
words = DataCollatorForLanguageModeling(tokenizer, return_tensors="np", seed=2, whole_word_mask=True)
counts = {"eligible": 0, "chosen": 0, "masked": 0, "kept": 0, "random": 0, "words": 0, "chosen_words": 0}
with open(OUT / "texts.jsonl", "w", encoding="utf-8") as file:
    for text in TEXTS:
        encoded = tokenizer(text, return_special_tokens_mask=True, return_offsets_mapping=True, return_token_type_ids=False)
        ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
        word_ids, _ = DataCollatorForLanguageModeling._calc_word_ids_and_prob_mask(np.array([encoded["offset_mapping"]]), np.array([special]))
        word_ids = word_ids[0].tolist()
        ever = [0] * len(ids)
        for _ in range(DRAWS):
            new, labels = collate(tokens, {"input_ids": ids, "special_tokens_mask": special})
            for i, label in enumerate(labels):
                if label == -100:
                    assert new[i] == ids[i]
                    continue
                assert label == ids[i]
                ever[i] = 1
                counts["chosen"] += 1
                kind = "masked" if new[i] == tokenizer.mask_token_id else "kept" if new[i] == ids[i] else "random"
                counts[kind] += 1
            new, labels = collate(words, {"input_ids": ids, "special_tokens_mask": special, "offset_mapping": encoded["offset_mapping"]})
            chosen = {word_ids[i] for i, label in enumerate(labels) if label != -100}
            assert -1 not in chosen
            assert all((word_ids[i] in chosen) == (labels[i] != -100) for i in range(len(ids)))
            assert all(new[i] == (tokenizer.mask_token_id if labels[i] != -100 else ids[i]) for i in range(len(ids)))
            counts["chosen_words"] += len(chosen)
            counts["words"] += len(set(word_ids) - {-1})
        counts["eligible"] += DRAWS * (len(ids) - sum(special))
        pieces = [-1 if mark else int(tokenizer.convert_ids_to_tokens(i).startswith("##")) for i, mark in zip(ids, special)]
        file.write(json.dumps({"text": text, "ids": ids, "special": special, "words": word_ids, "continues": pieces, "ever": ever}) + "\n")
(OUT / "draws.json").write_text(json.dumps({**counts, "draws": DRAWS, "vocabulary": len(tokenizer), "mask": tokenizer.mask_token_id}))
