"""What SQuAD's evaluate-v1.1.py computes, for tests to compare with: no package has it (torchmetrics' F1 of an answer without words is
that of version 2.0). Standard library only."""
import collections
import re
import string


def normalize_answer(s):
    s = "".join(ch for ch in s.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


def f1_score(prediction, gold):
    prediction_tokens, gold_tokens = normalize_answer(prediction).split(), normalize_answer(gold).split()
    num_same = sum((collections.Counter(prediction_tokens) & collections.Counter(gold_tokens)).values())
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(prediction_tokens), 1.0 * num_same / len(gold_tokens)
    return (2 * precision * recall) / (precision + recall)


def exact(prediction, gold):
    return normalize_answer(prediction) == normalize_answer(gold)


def evaluate(dataset, predictions):
    f1 = exact_match = total = 0
    for article in dataset:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                total += 1
                golds = [answer["text"] for answer in qa["answers"]]
                exact_match += max(exact(predictions[qa["id"]], gold) for gold in golds)
                f1 += max(f1_score(predictions[qa["id"]], gold) for gold in golds)
    return {"exact_match": 100.0 * exact_match / total, "f1": 100.0 * f1 / total}
