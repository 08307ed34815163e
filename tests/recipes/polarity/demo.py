"""The demo of examples/polarity, as its README has it, reaches its figures: accuracy on labels alone, and learning from a teacher."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import job

LEAST = 0.94  # the README's figure, less its tolerance


def main():
    folder = job.workspace()
    data = f"{folder}/data"
    subprocess.run([f"{job.SOURCE}/examples/polarity/generate.py", "--out", data], check=True)
    paths = ["--dataset_name", f"{data}/train.csv", "--eval_dataset_name", f"{data}/test.csv", "--student_model", f"{data}/student"]
    job.must_run(["--config_file", f"{job.SOURCE}/examples/polarity/demo.yaml", *paths, "--output_dir", f"{folder}/out"], ranks=2,
                 program="polarity")
    end = job.records(f"{folder}/out", "train_runtime")[-1]
    job.check(end["eval_accuracy"] >= LEAST, end)
    print(f"ok: accuracy {end['eval_accuracy']}, {end['train_runtime']:.1f} s, {end['train_samples_per_second']:.0f} samples/s")


main()
