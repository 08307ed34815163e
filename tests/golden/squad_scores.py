"""What SQuAD's evaluate-v1.1.py and evaluate-v2.0.py compute, for tests to compare with. Standard library only."""
import collections
import re
import string


def normalize_answer(s):
    s = "".join(ch for ch in s.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


# ---- v1.1

def f1_v1(prediction, gold):
    prediction_tokens, gold_tokens = normalize_answer(prediction).split(), normalize_answer(gold).split()
    num_same = sum((collections.Counter(prediction_tokens) & collections.Counter(gold_tokens)).values())
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(prediction_tokens), 1.0 * num_same / len(gold_tokens)
    return (2 * precision * recall) / (precision + recall)


def exact(prediction, gold):
    return normalize_answer(prediction) == normalize_answer(gold)


def evaluate_v1(dataset, predictions):
    f1 = exact_match = total = 0
    for article in dataset:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                total += 1
                golds = [answer["text"] for answer in qa["answers"]]
                exact_match += max(exact(predictions[qa["id"]], gold) for gold in golds)
                f1 += max(f1_v1(predictions[qa["id"]], gold) for gold in golds)
    return {"exact_match": 100.0 * exact_match / total, "f1": 100.0 * f1 / total}


# ---- v2.0

def f1_v2(prediction, gold):
    gold_toks = normalize_answer(gold).split() if gold else []
    pred_toks = normalize_answer(prediction).split() if prediction else []
    num_same = sum((collections.Counter(gold_toks) & collections.Counter(pred_toks)).values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(pred_toks), 1.0 * num_same / len(gold_toks)
    return (2 * precision * recall) / (precision + recall)


def find_best_thresh(preds, scores, na_probs, qid_to_has_ans):
    cur_score = best_score = sum(1 for k in qid_to_has_ans if not qid_to_has_ans[k])
    best_thresh = 0.0
    for qid in sorted(na_probs, key=lambda k: na_probs[k]):
        if qid_to_has_ans[qid]:
            diff = scores[qid]
        else:
            diff = -1 if preds[qid] else 0
        cur_score += diff
        if cur_score > best_score:
            best_score = cur_score
            best_thresh = na_probs[qid]
    return 100.0 * best_score / len(scores), best_thresh


def evaluate_v2(dataset, predictions, na_probs):
    exact_scores, f1_scores, has_answer = {}, {}, {}
    for article in dataset:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                golds = [a["text"] for a in qa["answers"] if normalize_answer(a["text"])] or [""]
                prediction = predictions[qa["id"]]
                exact_scores[qa["id"]] = max(int(exact(prediction, gold)) for gold in golds)
                f1_scores[qa["id"]] = max(f1_v2(prediction, gold) for gold in golds)
                has_answer[qa["id"]] = bool(qa["answers"])
    result = {}
    for prefix, ids in (("", list(has_answer)), ("HasAns_", [k for k, v in has_answer.items() if v]),
                        ("NoAns_", [k for k, v in has_answer.items() if not v])):
        if ids:
            result |= {f"{prefix}exact": 100.0 * sum(exact_scores[k] for k in ids) / len(ids),
                       f"{prefix}f1": 100.0 * sum(f1_scores[k] for k in ids) / len(ids), f"{prefix}total": len(ids)}
    for name, scores in ("exact", exact_scores), ("f1", f1_scores):
        result[f"best_{name}"], result[f"best_{name}_thresh"] = find_best_thresh(predictions, scores, na_probs, has_answer)
    return result
