"""What a disk does to a job: an old checkpoint that cannot be removed, a file of records that is full or gone, an output_dir
that vanishes. No job ends for these, and none is silent."""
import glob
import json
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


def small_disk(megabytes, script):
    """Runs the script in a mount namespace of its own, with so small a disk at $SMALL_DISK; None where that is not allowed."""
    place = job.workspace()
    command = f"mount -t tmpfs -o size={megabytes}m small {place} && echo mounted && {script}"
    for more in ([], ["-U", "-r"]):
        done = subprocess.run(["unshare", "-m", *more, "/bin/sh", "-c", command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=180, env=job.environment(SMALL_DISK=place))
        if "mounted" in done.stdout:
            return done
    return None


def check_full_disk(folder):
    """A disk that fills while the job runs, and has space again: no record is lost, and no line is cut."""
    out = "$SMALL_DISK/out"
    options = job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
                         student_model=f"{folder}/student", max_steps=1200,
                         report_to=["jsonl", "csv", "tensorboard"])
    script = f"""
      fill() {{ dd if=/dev/zero of=$SMALL_DISK/filler bs=512 oflag=append conv=notrunc 2>/dev/null; true; }}
      {job.BIN}/distillrun -np 1 {job.BIN}/distill_llm --config_file {options} --output_dir {out} > {folder}/full.log 2>&1 &
      while ! grep -q '"step":3,' {out}/metrics.jsonl 2>/dev/null; do sleep 0.01; kill -0 $! || break; done
      fill
      for name in metrics.jsonl metrics.csv tensorboard/; do
        while ! grep -q "$name.*No space left" {folder}/full.log; do sleep 0.01; fill; kill -0 $! || break; done
      done
      cp {out}/metrics.jsonl {folder}/while-full.jsonl
      rm $SMALL_DISK/filler
      wait $!; code=$?
      cp -r {out} {folder}/full
      exit $code"""
    done = small_disk(60, script)
    if done is None:
        print("skipped: this system lets no process mount a disk in a namespace of its own")
        return False
    with open(f"{folder}/full.log", encoding="utf-8") as file:
        output = file.read()
    job.check(done.returncode == 0, f"a full disk ended the job with {done.returncode}:\n{output}")
    output = "".join(line for line in output.splitlines(keepends=True) if not line.startswith("step "))
    warned = [line for line in output.splitlines() if "training continues, and what is not written is kept" in line]
    for name in ("metrics.jsonl", "metrics.csv", "tensorboard/"):
        job.check(any(name in line for line in warned), f"no warning for {name}:\n{output}")
    job.check("bytes, 0 are free" in output and "is written again; 0 of its records are lost" in output, output)
    with open(f"{folder}/while-full.jsonl", encoding="utf-8") as file:
        text = file.read()
    job.check(text.endswith("\n") and all(json.loads(line) for line in text.splitlines()), f"a cut line: {text[-200:]}")
    job.check(sorted(job.metrics(f"{folder}/full")) == list(range(1, 1201)), "records are missing")
    with open(f"{folder}/full/metrics.csv", encoding="utf-8") as file:
        losses = [line for line in file if ",loss," in line]
    job.check(len(losses) == 1200, f"metrics.csv has {len(losses)} losses")
    print("ok: a disk that is full for a while costs no record")
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
    done = [check_old_checkpoint(folder), check_full_disk(folder)]
    check_vanished(folder)
    sys.exit(0 if all(done) else SKIPPED)


main()
