"""Adds to the cases of squad_golden.py what transformers 4 says of them: squad_transformers4.py FOLDER

transformers 5 has neither SQuAD's metrics (those of evaluate-v2.0.py, which it took from there) nor the question-answering
pipeline. 4.52 is the last version whose pipeline gives the likeliest span; later ones sum the scores of spans with the same words.
"""
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers
from transformers.data.metrics import squad_metrics

FOLDER = Path(sys.argv[1])
assert transformers.__version__.startswith("4.52."), transformers.__version__


def complete(name, add):
    cases = json.loads((FOLDER / name).read_text())
    for case in cases:
        add(case)
    (FOLDER / name).write_text(json.dumps(cases))


def add_pair(case):
    prediction, gold = case[:2]
    case += [squad_metrics.compute_f1(gold, prediction), bool(squad_metrics.compute_exact(gold, prediction))]


def add_scores(case):
    """Without a threshold: run_qa.py has applied its own already."""
    if not case["v2"]:
        return
    names = [f"q{number}" for number in range(len(case["golds"]))]
    examples = [SimpleNamespace(qas_id=name, answers=[{"text": text} for text in golds]) for name, golds in zip(names, case["golds"])]
    case["scores"] = squad_metrics.squad_evaluate(examples, dict(zip(names, case["predictions"])), dict(zip(names, case["odds"])),
                                                  no_answer_probability_threshold=float("inf"))


def add_answers():
    model = transformers.BertForQuestionAnswering.from_pretrained(FOLDER / "model").eval()
    answer = transformers.pipeline("question-answering", model=model, device="cpu",
                                   tokenizer=transformers.BertTokenizerFast.from_pretrained(FOLDER / "model"))
    complete("answers.json", lambda case: case.update(answer(question=case["question"], context=case["context"], max_seq_len=64,
                                                             doc_stride=16, max_answer_len=15)))


complete("normalize.json", lambda case: case.append(squad_metrics.normalize_answer(case[0])))
complete("pairs.json", add_pair)
complete("scores.json", add_scores)
add_answers()
