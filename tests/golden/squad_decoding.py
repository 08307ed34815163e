"""What postprocess_qa_predictions of transformers' run_qa.py computes, for tests to compare with: an example (utils_qa.py beside it), so no
package has it."""
import numpy as np


def postprocess_one(context, features, version_2_with_negative, n_best_size, max_answer_length, null_score_diff_threshold):
    """The answer of one question, its candidates and its null odds. A feature: (start_logits, end_logits, offset_mapping)."""
    min_null_prediction = None
    prelim_predictions = []
    for start_logits, end_logits, offset_mapping in features:
        feature_null_score = start_logits[0] + end_logits[0]
        if min_null_prediction is None or min_null_prediction["score"] > feature_null_score:
            min_null_prediction = {"offsets": (0, 0), "score": feature_null_score, "start_logit": start_logits[0],
                                   "end_logit": end_logits[0]}
        # The kind is stable here, so that equal logits have one order.
        start_indexes = np.argsort(start_logits, kind="stable")[-1: -n_best_size - 1: -1].tolist()
        end_indexes = np.argsort(end_logits, kind="stable")[-1: -n_best_size - 1: -1].tolist()
        for start_index in start_indexes:
            for end_index in end_indexes:
                if offset_mapping[start_index] is None or offset_mapping[end_index] is None:
                    continue
                if end_index < start_index or end_index - start_index + 1 > max_answer_length:
                    continue
                prelim_predictions.append({
                    "offsets": (offset_mapping[start_index][0], offset_mapping[end_index][1]),
                    "score": start_logits[start_index] + end_logits[end_index],
                    "start_logit": start_logits[start_index], "end_logit": end_logits[end_index]})
    if version_2_with_negative:
        prelim_predictions.append(min_null_prediction)
        null_score = min_null_prediction["score"]
    predictions = sorted(prelim_predictions, key=lambda x: x["score"], reverse=True)[:n_best_size]
    if version_2_with_negative and not any(p["offsets"] == (0, 0) for p in predictions):
        predictions.append(min_null_prediction)
    for pred in predictions:
        offsets = pred.pop("offsets")
        pred["text"] = context[offsets[0]: offsets[1]]
    if len(predictions) == 0 or (len(predictions) == 1 and predictions[0]["text"] == ""):
        predictions.insert(0, {"text": "empty", "start_logit": 0.0, "end_logit": 0.0, "score": 0.0})
    scores = np.array([pred.pop("score") for pred in predictions])
    exp_scores = np.exp(scores - np.max(scores))
    for prob, pred in zip(exp_scores / exp_scores.sum(), predictions):
        pred["probability"] = prob
    predictions = [{k: v if isinstance(v, str) else float(v) for k, v in pred.items()} for pred in predictions]
    if not version_2_with_negative:
        return predictions[0]["text"], predictions, 0.0
    i = 0
    while predictions[i]["text"] == "":
        i += 1
    best = predictions[i]
    score_diff = float(null_score - np.float32(best["start_logit"]) - np.float32(best["end_logit"]))
    return "" if score_diff > null_score_diff_threshold else best["text"], predictions, score_diff
