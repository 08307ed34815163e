"""A job that is killed or interrupted and resumed has the losses of the undisturbed one, bit for bit, on the same number of
ranks."""
import json
import os
import re
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def arguments(folder, out, gradient_accumulation_steps=2, **options):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
        student_model=f"{folder}/student", output_dir=out, per_device_train_batch_size=2,
        gradient_accumulation_steps=gradient_accumulation_steps, num_train_epochs=3, save_steps=5, save_total_limit=2, **options)]


def kill(folder, out, ranks, **options):
    """Kills the whole job with SIGKILL after its first checkpoint; the option that resumes from there."""
    job.kill_after(f"{out}/checkpoint-5", arguments(folder, out, **options), ranks)
    return {"resume_from_checkpoint": "latest"}


def interrupt(folder, out, ranks, **options):
    """Ends the job as Ctrl-C does, which reaches distillrun alone; the option that its last line tells."""
    process = job.start_until(f"{out}/checkpoint-10", arguments(folder, out, **options), ranks)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    job.check(process.returncode == 128 + signal.SIGINT, f"exit code {process.returncode}:\n{output}")
    last = re.fullmatch(rf"interrupted after step (\d+) of \d+; the newest checkpoint is {out}/checkpoint-(\d+); to "
                        r"resume, repeat the command with --(resume_from_checkpoint) (latest)", output.splitlines()[-1])
    job.check(last and output.count("interrupted") == 1, f"the last line does not say how to resume:\n{output}")
    job.check(int(last[1]) >= 10 and int(last[2]) >= 5, last[0])
    job.check("error: " not in output, f"an interrupted rank said that another one was lost:\n{output}")
    check_repeated(folder, out, ranks, **options)
    return {last[3]: last[4]}


def check_repeated(folder, out, ranks, **options):
    """The same command again is told that the checkpoint is its own; another one that it is an earlier run's."""
    # The one on disk: another may have been published while the interruption was told.
    step = max(int(name.split("-")[1]) for name in os.listdir(out) if re.fullmatch(r"checkpoint-\d+", name))
    for what, changes in ("is this same run's, by every option: to resume it, repeat the command with "
                          "--resume_from_checkpoint latest", {}), ("holds checkpoints of an earlier run", {"seed": 43}):
        code, output = job.run(arguments(folder, out, **options, **changes), ranks=ranks)
        job.check(code != 0 and what in output and f"checkpoint-{step}" in output, f"it does not say '{what}':\n{output}")


def check_case(folder, name, ranks, end, **options):
    whole, broken = f"{folder}/{name}-whole", f"{folder}/{name}-broken"
    job.must_run(arguments(folder, whole, **options), ranks=ranks)
    resume = end(folder, broken, ranks, **options)
    output = job.must_run(arguments(folder, broken, **resume, **options), ranks=ranks)
    job.check("resum" in output.lower(), f"the job does not say that it resumed:\n{output}")
    job.check("rows a step" not in output, f"the steps are the same, but the job says that they are not:\n{output}")
    expected, found = job.metrics(whole), job.metrics(broken)
    job.check(sorted(expected) == sorted(found), f"{name}: steps {sorted(found)} instead of {sorted(expected)}")
    for step, line in expected.items():
        for key in ("loss", "kl", "ce", "grad_norm", "learning_rate", "epoch"):
            job.check(json.dumps(line[key]) == json.dumps(found[step][key]),
                      f"{name}, step {step}: {key} {found[step][key]} instead of {line[key]}")
    print(f"ok: {name}, {len(expected)} steps")


def check_fewer_ranks(folder):
    """With the rows of a rank as they were a step has half as many: said, since the schedule is another one then."""
    output = job.must_run(arguments(folder, f"{folder}/two-ranks-broken", resume_from_checkpoint="latest"), ranks=1)
    job.check("resuming with 4 rows a step (1 ranks); the checkpoint was made with 8 (2 ranks)" in output,
              f"the job does not say that its steps are smaller:\n{output}")
    print("ok: fewer ranks are warned of")


def check_other_ranks(folder):
    """A job of two ranks that is killed within an epoch, and resumed on others: the same samples in each step, so the same losses but for
    the order of sums."""
    def words(out, **options):
        return arguments(folder, out, gradient_accumulation_steps=1, global_batch_size=12, **options)

    job.must_run(words(f"{folder}/batch-whole"), ranks=2)
    job.kill_after(f"{folder}/batch-broken/checkpoint-5", words(f"{folder}/batch-broken"), 2)
    expected = job.metrics(f"{folder}/batch-whole")
    job.check(len(expected) == 21, f"steps {sorted(expected)}")
    for ranks in (1, 3, 4):
        out = f"{folder}/batch-{ranks}"
        shutil.copytree(f"{folder}/batch-broken", out)
        output = job.must_run(words(out, resume_from_checkpoint="latest"), ranks=ranks)
        job.check("resuming from" in output and "rows a step" not in output, f"{ranks} ranks:\n{output}")
        found = job.metrics(out)
        job.check(sorted(found) == sorted(expected), f"{ranks} ranks: steps {sorted(found)}")
        for step, line in expected.items():
            for key in ("loss", "kl", "ce"):
                job.check(abs(found[step][key] - line[key]) < 1e-5 * abs(line[key]),
                          f"{ranks} ranks, step {step}: {key} {found[step][key]} instead of {line[key]}")
    print("ok: a job of two ranks is resumed on one, three and four")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=83)
    check_case(folder, "one-rank", 1, interrupt)
    check_case(folder, "two-ranks", 2, kill)
    check_fewer_ranks(folder)
    check_other_ranks(folder)
    check_case(folder, "two-ranks-bf16-packed", 2, interrupt, bf16=True, packing=True)


main()
