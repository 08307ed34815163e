"""What a job does on a disk that is full: for a while, at a checkpoint, at its very end, or from the start. In a mount namespace
of its own, whose disks are small."""
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

SKIPPED = 77
TO_RESUME = 85
STEPS = 300
INSIDE = "--inside"


def enter_namespace():
    """Starts this file again where disks may be mounted; ends as skipped where that is not allowed."""
    with tempfile.TemporaryDirectory() as place:
        for more in ([], ["-U", "-r"]):
            unshare = ["unshare", "-m", *more]
            probe = [*unshare, "mount", "-t", "tmpfs", "-o", "size=1m", "small", place]
            if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                sys.exit(subprocess.run([*unshare, sys.executable, __file__, INSIDE], check=False).returncode)
    print("skipped: this system lets no process mount a disk in a namespace of its own")
    sys.exit(SKIPPED)


class Disk:
    """A small disk, with a file that takes its space away."""

    def __init__(self, folder, name, megabytes):
        self.place = f"{folder}/{name}"
        self.out = f"{self.place}/out"
        self.filler = f"{self.place}/filler"
        os.mkdir(self.place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "small", self.place], check=True)

    def fill(self, leave=0):
        while (count := self.free_bytes() - leave) > 0:
            with open(self.filler, "ab", buffering=0) as file:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, count)
                except OSError:
                    pass  # the job took some meanwhile

    def free_bytes(self):
        about = os.statvfs(self.place)
        return about.f_bavail * about.f_frsize

    def free(self):
        os.unlink(self.filler)

    def close(self):
        subprocess.run(["umount", "-l", self.place], check=True)


class Job:
    """distill_llm as one rank, whose output can be read while it runs."""

    def __init__(self, folder, out, limit_bytes=None, environment=None, **options):
        self.out = out
        self.log = tempfile.mkstemp(dir=folder, suffix=".log")[1]
        config = job.config(folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
                            student_model=f"{folder}/student", output_dir=out, **{"max_steps": STEPS, **options})
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))) if limit_bytes else None
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([f"{job.BIN}/distill_llm", "--config_file", config], stdout=log,
                                            stderr=subprocess.STDOUT, preexec_fn=limit,
                                            env=job.environment(**(environment or {})))

    def output(self):
        with open(self.log, encoding="utf-8") as file:
            return "".join(line for line in file if not line.startswith("step "))

    def wait_until(self, is_so, what, meanwhile=lambda: None):
        deadline = time.monotonic() + 60
        while not is_so():
            job.check(self.process.poll() is None, f"the job ended before {what}:\n{self.output()}")
            job.check(time.monotonic() < deadline, f"not within 60 s: {what}\n{self.output()}")
            meanwhile()
            time.sleep(0.002)

    def wait_for_text(self, text, meanwhile=lambda: None):
        self.wait_until(lambda: text in self.output(), f"it said {text!r}", meanwhile)

    def wait_for_step(self, step):
        path = f"{self.out}/metrics.jsonl"
        self.wait_until(lambda: os.path.exists(path) and step in job.metrics(self.out), f"step {step}")

    def while_stopped(self, act):
        """`act` is over before the job takes another step."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        act()
        self.process.send_signal(signal.SIGCONT)

    def finish(self, code, *texts):
        self.process.wait(timeout=120)
        output = self.output()
        job.check(self.process.returncode == code, f"exit code {self.process.returncode} instead of {code}\n{output}")
        for text in texts:
            job.check(text in output, f"it does not say {text!r}:\n{output}")
        return output


def model(folder):
    with open(f"{folder}/model.safetensors", "rb") as file:
        return file.read()


def checkpoints(out):
    return sorted(int(name.split("-")[1]) for name in os.listdir(out) if name.startswith("checkpoint-"))


def check_records(folder):
    """A disk that fills while the job runs, and has space again: no record is lost, and no line is cut."""
    disk = Disk(folder, "records", 60)
    run = Job(folder, disk.out, max_steps=1200, report_to=["jsonl", "csv", "tensorboard"])
    run.wait_for_step(3)
    run.while_stopped(disk.fill)
    for name in ("metrics.jsonl", "metrics.csv", "tensorboard/"):
        run.wait_until(lambda name=name: any(name in line and "No space left" in line and
                                             "training continues, and what is not written is kept" in line
                                             for line in run.output().splitlines()), f"a warning for {name}", disk.fill)
    with open(f"{disk.out}/metrics.jsonl", encoding="utf-8") as file:
        text = file.read()
    job.check(text.endswith("\n") and all(json.loads(line) for line in text.splitlines()), f"a cut line: {text[-200:]}")
    disk.free()
    run.finish(0, "bytes, 0 are free", "is written again; 0 of its records are lost")
    job.check(sorted(job.metrics(disk.out)) == list(range(1, 1201)), "records are missing")
    with open(f"{disk.out}/metrics.csv", encoding="utf-8") as file:
        losses = [line for line in file if ",loss," in line]
    job.check(len(losses) == 1200, f"metrics.csv has {len(losses)} losses")
    disk.close()
    print("ok: a disk that is full for a while costs no record")


def check_checkpoint(folder, save_failure, has_older, code, *texts):
    """A checkpoint in the middle of the run finds no space."""
    disk = Disk(folder, f"checkpoint-{save_failure}-{has_older}", 200)
    run = Job(folder, disk.out, save_steps=20 if has_older else STEPS - 1, save_total_limit=0, save_failure=save_failure)
    if has_older:
        run.wait_until(lambda: os.path.exists(f"{disk.out}/checkpoint-20/manifest.pb"), "its first checkpoint")
    else:
        run.wait_for_step(1)
    run.while_stopped(disk.fill)
    if code == 0:
        run.wait_for_text("; training continues (save_failure: warn)", disk.fill)
        disk.free()
    output = run.finish(code, "No space left on device", *texts)
    found = checkpoints(disk.out)
    job.check((20 in found) == has_older and (STEPS in found) == (code == 0), f"checkpoints {found}\n{output}")
    job.check(not glob.glob(f"{disk.out}/.checkpoint-*"), os.listdir(disk.out))
    if code == 0:
        job.check(model(disk.out) == model(f"{folder}/whole"), "the trained model differs from an undisturbed run's")
        job.check(sorted(job.metrics(disk.out)) == list(range(1, STEPS + 1)), "records are missing")
    else:
        job.check(not os.path.exists(f"{disk.out}/model.safetensors"), "a run that failed has a model")
        if has_older:
            disk.free()
            run = Job(folder, disk.out, resume_from_checkpoint="latest")
            run.finish(0)
            job.check(model(disk.out) == model(f"{folder}/whole"), "the resumed run's model differs")
    disk.close()
    print(f"ok: a checkpoint without space, save_failure {save_failure}, {'an' if has_older else 'no'} older one: code {code}")


def full_at_the_end(folder, name, leave=0, **options):
    """A job whose disk is filled at its first steps, and which saves at its last step alone."""
    disk = Disk(folder, name, 60)
    run = Job(folder, disk.out, save_steps=STEPS, **options)
    run.wait_for_step(1)
    run.while_stopped(lambda: disk.fill(leave))
    job.check(checkpoints(disk.out) == [], "the disk was filled too late: make the job longer")
    return disk, run


def check_retry(folder):
    disk, run = full_at_the_end(folder, "retry")
    run.wait_for_text("(final_save_retry_seconds): free space")
    job.check(not os.path.exists(f"{disk.out}/model.safetensors"), "there is a model on a full disk")
    disk.free()
    run.finish(0, "; the trained model is saved all the same (save_failure: warn)")
    job.check(model(disk.out) == model(f"{folder}/whole"), "the trained model differs from an undisturbed run's")
    job.check(checkpoints(disk.out) == [STEPS], f"checkpoints {checkpoints(disk.out)}")
    disk.close()
    disk, run = full_at_the_end(folder, "no-retry", final_save_retry_seconds=1)
    run.finish(1, "(final_save_retry_seconds is over)", "No space left on device")
    job.check(not os.path.exists(f"{disk.out}/model.safetensors"), "there is a model on a full disk")
    disk.close()
    print("ok: a trained model waits for space, and its last checkpoint comes behind it; in vain, that is an error")


def check_notice(folder):
    """The last checkpoint has space, the model beside it has none, and a notice comes while it waits."""
    whole = f"{folder}/whole"
    size = sum(os.path.getsize(path) for path in glob.glob(f"{whole}/checkpoint-{STEPS}/*"))
    disk, run = full_at_the_end(folder, "notice", leave=size + len(model(whole)) * 2 // 3, report_to=["jsonl"])
    run.wait_for_text("(final_save_retry_seconds): free space")
    job.check(checkpoints(disk.out) == [STEPS], f"the last checkpoint is not committed: {checkpoints(disk.out)}")
    run.process.send_signal(signal.SIGTERM)
    run.finish(TO_RESUME, "a notice ends the run", "--resume_from_checkpoint latest")
    job.check(not os.path.exists(f"{disk.out}/model.safetensors"), "there is a model on a full disk")
    disk.free()
    Job(folder, disk.out, save_steps=STEPS, resume_from_checkpoint="latest").finish(0)
    job.check(model(disk.out) == model(whole), "the model that the resumed run publishes differs")
    disk.close()
    print("ok: a notice while the trained model waits for space, and the resumed run publishes it")


def check_fallback(folder):
    fallback = f"{folder}/fallback"
    disk, run = full_at_the_end(folder, "elsewhere", environment={"DISTILL_FALLBACK_DIR": fallback})
    place = f"{fallback}/out-{run.process.pid}"
    run.finish(0, f"the trained model cannot be written to {disk.out}: ",
               f"; it is in {place} (DISTILL_FALLBACK_DIR) instead")
    job.check(os.listdir(fallback) == [os.path.basename(place)], os.listdir(fallback))
    job.check(model(place) == model(f"{folder}/whole"), "the model in the fallback differs")
    job.check(not os.path.exists(f"{disk.out}/model.safetensors"), "there is a model on a full disk")
    disk.close()
    print("ok: a trained model without space is in DISTILL_FALLBACK_DIR")


def check_too_small(folder):
    disk = Disk(folder, "tiny", 1)
    Job(folder, disk.out, save_steps=STEPS).finish(
        1, f"output_dir {disk.out} has ", " for the run; its model of ", "choose another output_dir")
    job.check(not os.path.exists(f"{disk.out}/metrics.jsonl"), "it has records: it was not refused before step 1")
    disk.close()
    print("ok: an output_dir with too little space is refused before the first step")


def check_file_limit(folder):
    """ulimit -f lets the model's file through, and not a checkpoint's."""
    out = f"{folder}/limited"
    run = Job(folder, out, limit_bytes=len(model(f"{folder}/whole")) * 3 // 2, save_steps=20)
    run.finish(1, f"cannot write {out}/.checkpoint-20", "File too large")
    job.check(checkpoints(out) == [], f"checkpoints {checkpoints(out)}")
    job.check(sorted(job.metrics(out)) == list(range(1, 21)), "records are missing")
    print("ok: a limit on the size of files ends a job by its message, and by no signal")


def main():
    if INSIDE not in sys.argv:
        enter_namespace()
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=83)
    Job(folder, f"{folder}/whole", save_steps=STEPS).finish(0)
    check_records(folder)
    check_checkpoint(folder, "warn", True, 0)
    check_checkpoint(folder, "stop", True, 1, "error: ")
    check_checkpoint(folder, "warn", False, 1, "error: ")
    check_retry(folder)
    check_notice(folder)
    check_fallback(folder)
    check_too_small(folder)
    check_file_limit(folder)


main()
