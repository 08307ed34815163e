"""The demo of examples/squad as its README has it: it trains to its figures, logs what scrapers look for, and answers.

demo.py FOLDER: the data and the model stay in FOLDER for the other tests.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden"))
import job
import scraped

SQUAD = os.path.join(job.SOURCE, "examples", "squad")
# README.md states these.
EXACT_MATCH, F1, TOLERANCE = 97.7, 98.9, 3.0


def check_predictions(out, data, end):
    """What was written has the scores that were told, by the file's own golds; the official script says so."""
    import squad_scores
    with open(f"{out}/predictions.json", encoding="utf-8") as file:
        predictions = json.load(file)
    with open(f"{data}/dev.json", encoding="utf-8") as file:
        scores = squad_scores.evaluate(json.load(file)["data"], predictions)
    for name, value in scores.items():
        job.check(abs(value - end["eval_" + name]) < 1e-6, f"{name}: {value} of predictions.json, {end} told")
    with open(f"{out}/nbest_predictions.json", encoding="utf-8") as file:
        for name, candidates in json.load(file).items():
            job.check(candidates[0]["text"] == predictions[name], f"{name}: {candidates[0]} is not {predictions[name]}")
            job.check(abs(sum(one["probability"] for one in candidates) - 1) < 1e-6, f"{name}: {candidates}")


def check_answer(out, context, expected):
    """The answer word for word, its score, and the characters where it stands."""
    path = f"{out}-context.txt"
    with open(path, "w", encoding="utf-8") as file:
        file.write(context)
    done = subprocess.run([f"{job.BIN}/squad", "answer", "--model_name_or_path", out, "--context", path, "--question",
                           "Where does Ada live?", "--max_seq_length", "64", "--device", "cpu"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, env=job.environment())
    start = context.index(expected)
    job.check(done.returncode == 0 and re.search(rf"^{expected}\nscore 0\.\d+, characters {start} to {start + len(expected)}$",
                                                 done.stdout, re.MULTILINE), f"the answer is not {expected}:\n{done.stdout}")


def main():
    folder = sys.argv[1]
    shutil.rmtree(folder, ignore_errors=True)
    data, out = f"{folder}/data", f"{folder}/demo"
    subprocess.run([f"{SQUAD}/generate.py", "--out", data], check=True)
    began = time.monotonic()
    output = job.must_run(["--config_file", f"{SQUAD}/demo.yaml", "--model_name_or_path", f"{data}/model", "--train_file",
                           f"{data}/train.json", "--validation_file", f"{data}/dev.json", "--output_dir", out, "--device", "cpu"],
                          program="squad", ranks=2)
    seconds = time.monotonic() - began
    end = job.records(out, "eval_f1")[-1]
    print(f"exact match {end['eval_exact_match']:.2f}, F1 {end['eval_f1']:.2f} in {seconds:.1f} s")
    job.check(end["eval_exact_match"] >= EXACT_MATCH - TOLERANCE, f"exact match {end['eval_exact_match']}")
    job.check(end["eval_f1"] >= F1 - TOLERANCE, f"F1 {end['eval_f1']}")
    scraped.check(output, end)
    check_predictions(out, data, end)
    check_answer(out, "Ada keeps a white cat. Ada lives in old Lisbon.", "old Lisbon")  # as README.md has it
    check_answer(out, "日本 Ada lives in Oslo. 🙂", "Oslo")  # characters are counted, not bytes


main()
