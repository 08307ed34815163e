"""What a user sees of distill_llm under each launcher: plain lines in a file, and what is asked for printed once."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

STEPS = 3


def arguments(folder, out):
    return ["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher",
        student_model=f"{folder}/student", output_dir=f"{folder}/{out}", max_steps=STEPS)]


def check_progress(folder, launcher):
    """mpirun gives its ranks a terminal of its own making, whatever its output goes to."""
    output = job.must_run(arguments(folder, launcher), ranks=2, launcher=launcher)
    job.check("\x1b" not in output, f"escapes of a terminal under {launcher}: {output!r}")
    lines = re.findall(rf"^step (\d)/{STEPS}  loss .* left$", output.replace("\r\n", "\n"), re.M)
    job.check(lines == [str(step + 1) for step in range(STEPS)], f"progress under {launcher}: {output!r}")
    print(f"ok: progress under {launcher}")


def check_said_once(folder, launcher):
    for option, pattern in (("--help", "--config_file PATH"), ("--version", "libdistill \\d")):
        output = job.must_run([option], ranks=3, launcher=launcher)
        job.check(len(re.findall(pattern, output)) == 1, f"{option} on three ranks under {launcher}:\n{output}")
    shown = [job.must_run([*arguments(folder, "none"), *flag], ranks=2, launcher=launcher).count("<|im_start|>assistant")
             for flag in (["--show-batch"], ["--show-batch", "true"])]
    job.check(shown[0] == shown[1] > 0, f"--show-batch and --show-batch true show {shown} answers under {launcher}")
    job.check(not os.path.exists(f"{folder}/none"), "showing a batch made the output folder")
    print(f"ok: --help, --version and --show-batch under {launcher}")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=20)
    for launcher in ("distillrun", "mpirun"):
        check_progress(folder, launcher)
        check_said_once(folder, launcher)


main()
