"""A job ends when its evaluations no longer improve, and leaves the model of the best one, which is never pruned: on one
rank, and on two that shard weights and optimizer."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_case(folder, name, ranks, **options):
    out = f"{folder}/{name}"
    # The first evaluation has the highest loss, so where greater is better it stays the best one.
    output = job.must_run(["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", eval_dataset_name=f"{folder}/held_out.jsonl",
        teacher_model=f"{folder}/teacher", student_model=f"{folder}/student", output_dir=out,
        per_device_train_batch_size=4 // ranks, per_device_eval_batch_size=5, max_steps=60, save_steps=5,
        save_total_limit=1, eval_steps=4, metric_for_best_model="eval_loss", greater_is_better=True,
        load_best_model_at_end=True, early_stopping_patience=2, learning_rate=1e-3, warmup_ratio=0, **options)], ranks=ranks)
    losses = {step: line["eval_loss"] for step, line in job.metrics(out, key="eval_loss").items()}
    job.check(list(losses) == [4, 8, 12] and losses[4] > max(losses[8], losses[12]), f"{name}: evaluations {losses}")
    job.check("ends early, at step 12: loss is best at step 4" in output, f"{name}: nothing says why it ended:\n{output}")
    checkpoints = sorted(entry for entry in os.listdir(out) if entry.startswith("checkpoint-"))
    job.check(checkpoints == ["checkpoint-12", "checkpoint-4"], f"{name}: {checkpoints}")
    model = read(f"{out}/model.safetensors")
    job.check(model == read(f"{out}/checkpoint-4/model.safetensors"), f"{name}: the model is not that of step 4")
    job.check(model != read(f"{out}/checkpoint-12/model.safetensors"), f"{name}: steps 4 and 12 have the same model")
    job.check(f"eval_loss = {losses[4]:.6g}" in output, f"{name}: the summary is not of the best model:\n{output}")
    print(f"ok: {name}, {losses}")
    return losses


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=83)
    job.make_chat(f"{folder}/held_out.jsonl", rows=17)
    alone = check_case(folder, "one-rank", 1)
    sharded = check_case(folder, "two-ranks-sharded", 2, zero_stage=3, shard_teacher=True)
    for step, loss in alone.items():
        job.check(abs(loss - sharded[step]) < 1e-4 * loss, f"step {step}: {sharded[step]} on two ranks, {loss} on one")
    check_case(folder, "two-ranks-bf16", 2, zero_stage=2, bf16=True)


main()
