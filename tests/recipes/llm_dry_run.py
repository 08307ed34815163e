"""distill_llm --dry_run: one step on the real models and data, whatever the config's sizes, and nothing is left."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def dry_run(folder, code, *parts, ranks=2, **options):
    os.makedirs(f"{folder}/tmp", exist_ok=True)
    values = {"dataset_name": f"{folder}/chat.jsonl", "teacher_model": f"{folder}/teacher", "student_model": f"{folder}/student",
              "output_dir": f"{folder}/out", "num_train_epochs": 3, "save_steps": 100, "max_length": 512,
              "per_device_train_batch_size": 16, "gradient_accumulation_steps": 8, "cache_dir": f"{folder}/tokens", **options}
    got, output = job.run(["--dry_run", "--config_file", job.config(folder, **values)], ranks=ranks, TMPDIR=f"{folder}/tmp")
    job.check(got == code, f"exit code {got}\n{output}")
    for part in parts:
        job.check(re.search(part, output), f"nothing like '{part}' in\n{output}")
    job.check(os.listdir(f"{folder}/tmp") == [], f"left: {os.listdir(f'{folder}/tmp')}")
    job.check(not os.path.exists(f"{folder}/out"), "it wrote to output_dir")
    job.check(not os.path.exists(f"{folder}/tokens"), "it kept tokens")
    return output


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=400)
    job.make_chat(f"{folder}/held_out.jsonl", rows=200, seed=2)
    evaluates = {"eval_dataset_name": f"{folder}/held_out.jsonl", "eval_steps": 100}
    losses = r"one step: loss \d+\.\d+.*, eval_loss \d+\.\d+.* on 2 ranks"
    written = r"nothing in .*/out; .*README\.md.*config\.json.*metrics\.jsonl.*model\.safetensors.*resolved_config\.yaml"
    dry_run(folder, 0, losses, r"num_samples 0 -> 64, max_eval_samples 0 -> 16", r"max_steps -1 -> 1", written,
            load_best_model_at_end=True, **evaluates)
    dry_run(folder, 0, losses, "validation_split: .* are held out", validation_split=0.05)
    dry_run(folder, 2, "metric_for_best_model.*rouge", metric_for_best_model="rouge", **evaluates)
    dry_run(folder, 2, "dataset_name: .*gone.jsonl", dataset_name=f"{folder}/gone.jsonl")
    print("ok: dry runs of distill_llm make one step, and leave nothing")


main()
