"""A batch system's notice (SIGTERM, SIGUSR1, the time that a run may take) commits a checkpoint at the end of the step, and the
job ends with the code for resuming; the resumed job is exactly the undisturbed one. A second notice ends it at once."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

TO_RESUME = 85
STEPS = 360  # so many that a busy machine does not end the job before its notice
# Beside distillrun alone: mpirun, and distillrun that hands the job over to it, as it does for its options and over hosts.
LAUNCHERS = {"mpirun": job.command("mpirun", 2),
             "distillrun-mpirun": [*job.command("distillrun", 2), "--mca", "orte_base_help_aggregate", "1"]}


def arguments(folder, out, **options):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
        student_model=f"{folder}/student", output_dir=out, per_device_train_batch_size=2,
        gradient_accumulation_steps=2, **{"max_steps": STEPS, **options})]


def start(folder, out, ranks, launcher=None, **options):
    launcher = launcher or job.command("distillrun", ranks)
    return subprocess.Popen([*launcher, f"{job.BIN}/distill_llm", *arguments(folder, out, **options)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            env=job.environment())


def await_step(process, out, step):
    deadline = time.monotonic() + 120
    while True:
        job.check(process.poll() is None, "the job ended before its notice: make it longer")
        job.check(time.monotonic() < deadline, f"no step {step} within 120 s")
        if os.path.exists(f"{out}/metrics.jsonl") and max(job.metrics(out), default=0) >= step:
            return
        time.sleep(0.005)


def check_same(whole, resumed):
    expected, found = job.metrics(whole), job.metrics(resumed)
    job.check(sorted(expected) == sorted(found), f"steps {sorted(found)} instead of {sorted(expected)}")
    job.check(job.evaluations(whole) == job.evaluations(resumed), "the evaluations differ")
    job.check(len(job.records(resumed)) == len(expected), "a step has two records")
    for step, line in expected.items():
        for key in ("loss", "kl", "ce", "grad_norm", "learning_rate", "epoch"):
            job.check(json.dumps(line[key]) == json.dumps(found[step][key]),
                      f"step {step}: {key} {found[step][key]} instead of {line[key]}")
    with open(f"{whole}/model.safetensors", "rb") as one, open(f"{resumed}/model.safetensors", "rb") as other:
        job.check(one.read() == other.read(), "the resumed run's weights differ")


def processes_of(pid):
    """The process and all below it."""
    found, parents = [pid], [pid]
    while parents:
        text = subprocess.run(["ps", "-o", "pid=", "--ppid", ",".join(map(str, parents))], stdout=subprocess.PIPE, text=True).stdout
        parents = [int(word) for word in text.split()]
        found += parents
    return found


def check_notice(folder, number, ranks, to_all=False, through="", heard=None, **options):
    """`to_all`: each process of the job is signalled, as systemd and Slurm do, so that some are told twice. `heard`: what the
    ranks get, where the launcher passes on another signal."""
    name = f"{number.name}-{ranks}{'-all' if to_all else ''}{'-' + through if through else ''}"
    out = f"{folder}/{name}"
    heard = heard or number
    process = start(folder, out, ranks, launcher=LAUNCHERS.get(through), **options)
    await_step(process, out, 3)
    began = time.monotonic()
    for pid in processes_of(process.pid) if to_all else [process.pid]:
        os.kill(pid, number)
    output = process.communicate(timeout=90)[0]
    job.check(process.returncode == TO_RESUME, f"{name}: exit code {process.returncode}\n{output}")
    job.check(f"{heard.name} ends the run after step " in output and "--resume_from_checkpoint latest" in output,
              f"{name}: it does not say how to resume\n{output}")
    job.check("error: " not in output, f"{name}: an error\n{output}")
    print(f"ok: {name}, saved and ended {time.monotonic() - began:.1f} s after its notice")
    job.must_run(arguments(folder, out, resume_from_checkpoint="latest", **options), ranks=ranks)
    check_same(f"{folder}/whole-{ranks}", out)


def check_within_evaluation(folder):
    """The notice is heard in the middle of an evaluation, which the resumed run makes; also where the best model is looked for."""
    job.make_chat(f"{folder}/held_out.jsonl", rows=8000)
    options = {"eval_dataset_name": f"{folder}/held_out.jsonl", "eval_strategy": "steps", "max_steps": 40, "eval_steps": 20, "save_steps": 20,
               "per_device_eval_batch_size": 4, "load_best_model_at_end": "true"}
    whole, out = f"{folder}/whole-evaluated", f"{folder}/evaluated"
    job.must_run(arguments(folder, whole, **options), ranks=2)
    cut = 0
    for step in (20, 40):
        process = start(folder, out, 2, resume_from_checkpoint="latest", **options)
        await_step(process, out, step)
        os.kill(process.pid, signal.SIGTERM)
        output = process.communicate(timeout=90)[0]
        job.check(process.returncode == TO_RESUME, f"a notice in an evaluation: exit code {process.returncode}\n{output}")
        cut += f"SIGTERM ends the run after step {step} of" in output and step not in job.metrics(out, "eval_loss")
    job.check(cut == 2, f"{cut} of 2 notices came within the evaluation: make it longer")
    job.must_run(arguments(folder, out, resume_from_checkpoint="latest", **options), ranks=2)
    check_same(whole, out)
    print("ok: an evaluation that a notice cut short is made by the resumed run")


def check_time_is_up(folder):
    for seconds in (0.6, 0.15, 0.05, 0.015, 0.005):  # fast machines need less for the whole run
        out = f"{folder}/time-{seconds}"
        code, output = job.run(arguments(folder, out, max_run_seconds=seconds))
        if code == TO_RESUME:
            break
    rounds = 0
    while code == TO_RESUME and rounds < 100:
        job.check("max_run_seconds" in output, output)
        code, output = job.run(arguments(folder, out, max_run_seconds=seconds, resume_from_checkpoint="latest"))
        rounds += 1
    job.check(code == 0 and rounds > 0, f"exit code {code} after {rounds} rounds\n{output}")
    check_same(f"{folder}/whole-1", out)
    print(f"ok: max_run_seconds {seconds}, in {rounds + 1} jobs")


def check_second_notice(folder):
    """The second one while the step of the first still runs: a step of thousands of micro-batches."""
    out = f"{folder}/second"
    job.make_chat(f"{folder}/long.jsonl", rows=20000)
    options = arguments(folder, out) + ["--gradient_accumulation_steps", "10000", "--dataset_name", f"{folder}/long.jsonl"]
    process = subprocess.Popen([f"{job.BIN}/distill_llm", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env=job.environment())
    deadline = time.monotonic() + 60
    while not os.path.exists(f"{out}/metrics.jsonl") and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)  # into the step
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(1.5)  # sooner it would be the same notice, passed on
    output = process.communicate(timeout=60)[0]
    job.check(process.returncode == -signal.SIGTERM, f"a second notice: exit code {process.returncode}\n{output}")
    job.check("interrupted after step " in output, output)
    print("ok: a second notice ends the run at once")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=120)
    for ranks in (1, 2):
        job.must_run(arguments(folder, f"{folder}/whole-{ranks}"), ranks=ranks)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            check_notice(folder, number, ranks)
    check_notice(folder, signal.SIGTERM, 2, to_all=True)
    check_notice(folder, signal.SIGUSR1, 2, through="mpirun")
    check_notice(folder, signal.SIGTERM, 2, through="distillrun-mpirun", heard=signal.SIGUSR1)
    check_within_evaluation(folder)
    check_time_is_up(folder)
    check_second_notice(folder)


main()
