"""What distill_llm says of model folders in which one thing is another one."""
import json
import re
import shutil
import subprocess

import job


def copy_of_good(folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(job.TOKENIZER, folder)


def change(path, keys, value):
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def message_of(folder):
    """The error of a run with this model, without the folder's name; "" where it is good."""
    done = subprocess.run([f"{job.BIN}/distill_llm", "--plan", "--teacher_model", folder, "--student_model", folder],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode == 0:
        return ""
    job.check(done.returncode == 2, f"exit code {done.returncode}: {done.stdout}")
    error = [line for line in done.stdout.split("\n") if "error: " in line][0]
    return re.sub(rf"^.*?{re.escape(folder)}/", "", error).replace("|", "\\|")


def refused(folder, file, changes):
    """[what, message] of each changed folder."""
    copy_of_good(folder)
    job.check(message_of(folder) == "", "the example's student is refused")
    for what, keys, value in changes:
        copy_of_good(folder)
        change(f"{folder}/{file}", keys, value)
        message = message_of(folder)
        job.check(message, f"{what} is not refused")
        yield [what, f"`{message}`"]
