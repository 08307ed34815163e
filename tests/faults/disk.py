"""What a disk does to a job: an old checkpoint that cannot be removed, an output_dir that vanishes. No job ends for these, and
none is silent. full_disk.py is about space."""
import glob
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

SKIPPED = 77


def arguments(folder, out, **options):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
        student_model=f"{folder}/student", output_dir=out, **options)]


def start(*program):
    return subprocess.Popen(job.command("distillrun", 1, f"{job.BIN}/distill_llm", *program), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=job.environment())


def wait_for(process, path):
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        job.check(process.poll() is None, f"the job ended before there was a {path}")
        job.check(time.monotonic() < deadline, f"no {path} within 60 s")
        time.sleep(0.002)


def finish(process, name):
    output = process.communicate(timeout=120)[0]
    job.check(process.returncode == 0, f"{name}: exit code {process.returncode}\n{output}")
    return output


def check_old_checkpoint(folder):
    """chattr +i, as root may: the job goes on, says so once, and removes the checkpoint when it can."""
    out = f"{folder}/immutable"
    process = start(*arguments(folder, out, save_steps=2, save_total_limit=1, max_steps=60))
    wait_for(process, f"{out}/checkpoint-2/manifest.pb")
    held = f"{out}/checkpoint-2"
    if subprocess.run(["chattr", "+i", held], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        process.kill()
        process.communicate()
        print(f"skipped: {held} cannot be made immutable (chattr +i)")
        return False
    output = finish(process, "an immutable checkpoint")
    job.check(os.path.isdir(held), "the job was over before its checkpoint was held: make it longer")
    subprocess.run(["chattr", "-i", held], check=True)
    job.check(output.count("is not needed any more, and stays") == 1, f"not one warning:\n{output}")
    job.check(f"{held} is not needed" in output and "Operation not permitted" in output, output)
    job.check(sorted(name for name in os.listdir(out) if "checkpoint-" in name) == ["checkpoint-2", "checkpoint-60"],
              os.listdir(out))
    output = job.must_run(arguments(folder, out, save_steps=2, save_total_limit=1, max_steps=62,
                                    resume_from_checkpoint="latest"))
    job.check(not os.path.exists(held), f"the old checkpoint is still there:\n{output}")
    print("ok: an old checkpoint that cannot be removed ends no job, and goes later")
    return True


def check_vanished(folder):
    """rm -r of the whole output_dir: said, and what comes after it is there."""
    out = f"{folder}/vanished"
    process = start(*arguments(folder, out, save_steps=20, max_steps=400))
    wait_for(process, f"{out}/checkpoint-20/manifest.pb")
    shutil.move(out, f"{folder}/elsewhere")
    output = finish(process, "an output_dir that vanished")
    job.check("metrics.jsonl was removed or moved while this run writes it" in output, output)
    job.check(400 in job.metrics(out) and os.path.isdir(f"{out}/checkpoint-400"), os.listdir(out))
    job.check(glob.glob(f"{out}/tensorboard/events*") or not glob.glob(f"{folder}/elsewhere/tensorboard/events*"),
              "no curves in the new folder")
    print("ok: an output_dir that vanishes is said, and made anew")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=83)
    done = check_old_checkpoint(folder)
    check_vanished(folder)
    sys.exit(0 if done else SKIPPED)


main()
