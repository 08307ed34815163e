"""The demo of examples/polarity, as its README has it, reaches its figure, and leaves words by themselves far behind."""
import csv
import os
import subprocess
import sys

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import job

# README.md states these.
ACCURACY, TOLERANCE = 0.974, 0.02
OF_WORDS, OF_PAIRS = 0.583, 0.938


def read_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    return [f"{title} {content}" for _, title, content in rows], [label for label, _, _ in rows]


def check_words(data):
    """What a logistic regression over counts of words reaches, and over those of pairs of words too."""
    texts, labels = read_rows(f"{data}/train.csv")
    held_out, right = read_rows(f"{data}/test.csv")
    for longest, stated in (1, OF_WORDS), (2, OF_PAIRS):
        counts = CountVectorizer(ngram_range=(1, longest))
        model = LogisticRegression(max_iter=1000).fit(counts.fit_transform(texts), labels)
        accuracy = model.score(counts.transform(held_out), right)
        job.check(abs(accuracy - stated) < 0.005, f"up to {longest} word(s): accuracy {accuracy}, the README says {stated}")


def main():
    folder = job.workspace()
    data = f"{folder}/data"
    subprocess.run([f"{job.SOURCE}/examples/polarity/generate.py", "--out", data], check=True)
    check_words(data)
    paths = ["--dataset_name", f"{data}/train.csv", "--eval_dataset_name", f"{data}/test.csv", "--student_model", f"{data}/student"]
    output = job.must_run(["--config_file", f"{job.SOURCE}/examples/polarity/demo.yaml", *paths, "--output_dir", f"{folder}/out",
                           "--device", "cpu"], ranks=2, program="polarity")
    accuracy = job.records(f"{folder}/out", "eval_accuracy")[-1]["eval_accuracy"]
    job.check(abs(accuracy - ACCURACY) <= TOLERANCE, f"accuracy {accuracy}, the README says {ACCURACY}")
    job.check(os.path.exists(f"{folder}/out/curves.png"), "no curves.png")
    print(f"ok: accuracy {accuracy}, {job.scraped(output, 'train_runtime')[-1]:.1f} s")


main()
