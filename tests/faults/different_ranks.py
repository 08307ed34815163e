"""A rank that reads another teacher, student, tokenizer or config under the same path, or runs another build, is refused before
step 1, with both ranks."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

RANKS = 2


def change_json(path, **changes):
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    value.update(changes)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def change_bytes(path, change):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        change(data)
        file.seek(0)
        file.write(data)


def header_end(data):
    return 8 + int.from_bytes(data[:8], "little")


def zero_weights(folder):
    def change(data):
        start = header_end(data)
        data[start:] = bytes(len(data) - start)
    change_bytes(f"{folder}/teacher/model.safetensors", change)


def flip_bit(data):
    data[(header_end(data) + len(data)) // 8 * 4] ^= 1


def swap_tokens(path):
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    vocabulary = tokenizer["model"]["vocab"]
    first, second = [token for token in vocabulary if len(token) == 1][-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)


CASES = {
    "a teacher of zeros": (zero_weights, "hash of the weights of the teacher differs"),
    "one bit of the teacher": (lambda folder: change_bytes(f"{folder}/teacher/model.safetensors", flip_bit),
                               "hash of the weights of the teacher differs"),
    "one bit of the student": (lambda folder: change_bytes(f"{folder}/student/model.safetensors", flip_bit),
                               "hash of the weights of the trained model differs"),
    "another eps": (lambda folder: change_json(f"{folder}/teacher/config.json", rms_norm_eps=1e-5),
                    "config.json's rms_norm_eps of the teacher differs between ranks: rank 0"),
    "another rope_theta": (lambda folder: change_json(f"{folder}/student/config.json", rope_theta=20000.0),
                           "config.json's rope_theta of the trained model differs between ranks: rank 0"),
    "two swapped tokens": (lambda folder: [swap_tokens(f"{folder}/{model}/tokenizer.json") for model in ("teacher", "student")],
                           "hash of tokenizer.json of the trained model differs"),
}


def start(folder):
    """Each rank in a folder of its own, with the same command."""
    options = job.config(folder, dataset_name="chat.jsonl", teacher_model="teacher", student_model="student",
                         output_dir=f"{folder}/out", max_steps=2)
    script = f'cd "{folder}/rank$DISTILL_RANK" && exec ./distill_llm --config_file "{options}"'
    done = subprocess.run(job.command("distillrun", RANKS, "/bin/sh", "-c", script), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=180, env=job.environment())
    return done.returncode, done.stdout


def make_ranks(folder, change_last):
    for rank in range(RANKS):
        place = f"{folder}/rank{rank}"
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        for name in ("teacher", "student"):
            shutil.copytree(f"{folder}/{name}", f"{place}/{name}")
        shutil.copy(f"{folder}/chat.jsonl", place)
        os.symlink(f"{job.BIN}/distill_llm", f"{place}/distill_llm")
    change_last(f"{folder}/rank{RANKS - 1}")


def patch_program(folder):
    os.remove(f"{folder}/distill_llm")
    shutil.copy(f"{job.BIN}/distill_llm", f"{folder}/distill_llm")
    # Nobody reads it: the last bytes of an ELF file are its section table.
    with open(f"{folder}/distill_llm", "ab") as file:
        file.write(b"\0")


def main():
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/chat.jsonl", rows=8)
    make_ranks(folder, lambda last: None)
    code, output = start(folder)
    job.check(code == 0, f"equal ranks are refused:\n{output}")
    for name, (change, message) in {**CASES, "a patched program": (patch_program, "libdistill differs: rank 0")}.items():
        make_ranks(folder, change)
        shutil.rmtree(f"{folder}/out", ignore_errors=True)
        code, output = start(folder)
        job.check(code == 2 and message in output and "rank 1 on" in output, f"{name}: exit code {code}\n{output}")
        job.check(output.count("error: ") == 1, f"{name}: not one error\n{output}")
        job.check(not os.path.exists(f"{folder}/out/metrics.jsonl"), f"{name}: training began")
        print(f"ok: {name}")


main()
