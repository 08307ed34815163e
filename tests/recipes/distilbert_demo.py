"""The demo of examples/distilbert/README.md as its commands are written there comes to the figures that stand there, and leaves the
reports that it promises."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

EXAMPLE = f"{job.SOURCE}/examples/distilbert"
# Perplexities of masked words; another kind of CPU rounds differently.
TEACHER, STUDENT, ALONE, TOLERANCE = 1.70, 1.75, 1.77, 0.06


def train(yaml, out, *arguments):
    return job.must_run(["--config_file", f"{EXAMPLE}/{yaml}.yaml", "--device", "cpu", "--output_dir", out, *arguments], ranks=2,
                        program="distilbert", timeout=500)


def perplexity(output, name):
    return float(re.search(rf"^{name} .*perplexity +([\d.]+)", output, flags=re.M)[1])


def main():
    folder = job.workspace()
    train("teacher", f"{folder}/teacher", "--student_checkpoint", f"{EXAMPLE}/teacher")
    distilled = train("demo", f"{folder}/student", "--teacher_model", f"{folder}/teacher", "--print_metrics")
    job.check_reports(f"{folder}/student", distilled)
    alone = train("demo", f"{folder}/alone", "--teacher_model", f"{folder}/teacher", "--alpha", "0", "--gamma", "0")
    for what, found, expected in (("teacher", perplexity(distilled, "teacher"), TEACHER),
                                  ("student", perplexity(distilled, "student"), STUDENT),
                                  ("student without the teacher", perplexity(alone, "student"), ALONE)):
        print(f"{what}: perplexity {found}")
        job.check(abs(found - expected) <= TOLERANCE, f"{what}: perplexity {found}, README.md says {expected}")
    kl = [job.records(f"{folder}/{name}", "eval_kl")[-1]["eval_kl"] for name in ("student", "alone")]
    print(f"divergence from the teacher's words: {kl[0]:.3f}, without it {kl[1]:.3f}")
    job.check(kl[0] < kl[1] / 2, f"the divergence is {kl[0]}, and {kl[1]} of the student that had no teacher")
    job.check(re.search(r"the student has 55 % of the teacher's parameters, [\d.]+ times its perplexity", distilled), distilled)
    last = job.records(f"{folder}/student", "eval_perplexity")[-1]
    job.check(abs(last["eval_perplexity"] - perplexity(distilled, "student")) < 0.01 * last["eval_perplexity"], f"{last}\n{distilled}")
    for key in "eval_kl", "eval_mlm", "eval_cosine", "eval_loss":
        job.check(key in last, f"{key} is not in {last}")


main()
