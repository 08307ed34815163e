"""docs/troubleshooting.md: the messages of its first table are those that the program prints."""
import json
import math
import os
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job


def first_table():
    with open(f"{job.SOURCE}/docs/troubleshooting.md", encoding="utf-8") as file:
        part = file.read().split("## It does not start")[1].split("\n## ")[0]
    return re.findall(r"^\| `(.*?)` \|", part, flags=re.M)


def causes(folder):
    """{a part of the message: options that bring it about}"""
    student = job.make_model(f"{folder}/student", seed=1)
    shape = f"{folder}/shape"
    job.make_shape(shape, 32, 2, 4, 2, 64, None)
    other = f"{folder}/other"
    job.make_shape(other, 32, 2, 4, 2, 64, None)
    with open(f"{other}/config.json", encoding="utf-8") as file:
        config = file.read()
    with open(f"{other}/config.json", "w", encoding="utf-8") as file:
        file.write(config.replace('"qwen2"', '"gpt2"'))
    rows = job.make_chat(f"{folder}/rows.jsonl", rows=4)
    with open(f"{folder}/alpaca.jsonl", "w", encoding="utf-8") as file:
        file.write('{"ask": "a", "reply": "b"}\n')
    full = f"{folder}/full"
    broken, quantised = f"{folder}/broken", f"{folder}/quantised"
    for copy in (broken, quantised):
        shutil.copytree(student, copy)
    with open(f"{broken}/model.safetensors", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(struct.pack("<f", math.nan))
    with open(f"{quantised}/config.json", "r+", encoding="utf-8") as file:
        config = json.load(file)
        file.seek(0)
        json.dump({**config, "quantization_config": {"quant_method": "fp8"}}, file)
    good = ["--student_model", student, "--alpha", "0", "--dataset_name", rows, "--device", "cpu", "--max_steps", "1",
            "--max_length", "64", "--output_dir"]
    job.must_run([*good, full])
    new = [*good, f"{folder}/new"]
    with open(f"{folder}/flag.yaml", "w", encoding="utf-8") as file:
        file.write("prompt: hello\n")
    return {
        "no folder models": [*new, "--student_model", "models/mine/v1"],
        "is called Qwen": [*new, "--student_model", "Qwen/Qwen2-0.5B"],
        "HF_HUB_OFFLINE": [*new, "--student_model", "hf://org/name"],
        "supported are": [*new, "--student_model", other],
        "neither model.safetensors": [*new, "--alpha", "0.5", "--teacher_model", shape],
        "holds values": [*new, "--student_model", broken],
        "only a teacher's": [*new, "--student_model", quantised],
        "no such file": [*new, "--dataset_name", f"{folder}/none.jsonl"],
        "resume_from_checkpoint: no folder": [*good, full, "--resume_from_checkpoint", "checkpoint-7"],
        "command line alone": [*new, "--config_file", f"{folder}/flag.yaml"],
        "neither 'messages'": [*new, "--dataset_name", f"{folder}/alpaca.jsonl"],
        "did you mean": [*new, "--learning_rte", "1"],
        "is missing": ["--student_model", student, "--alpha", "0", "--dataset_name", rows, "--output_dir", ""],
        "use_flash_attention": [*new, "--use_flash_attention", "true"],
        "device: cuda": [*new, "--device", "cuda"],
        "overwrite_output_dir": [*good, full],
        "there is no token": [*new, "--hub_location", "org/student"],
        "give ORG/NAME": [*new, "--hub_location", "student"],
        "wandb": [*new, "--report_to", "wandb"],
    }


def main():
    messages = first_table()
    options = causes(job.workspace())
    job.check(len(messages) == len(options), f"the table has {len(messages)} messages, the test {len(options)}")
    for part, arguments in options.items():
        found = [message for message in messages if part in message]
        job.check(len(found) == 1, f"{len(found)} messages of the table have '{part}'")
        # Without GPUs and tokens, also where there are some, and with an empty cache of the hub.
        code, output = job.run(arguments, CUDA_VISIBLE_DEVICES="", HF_TOKEN="", HF_HOME=f"{job.SOURCE}/none", HF_HUB_CACHE="")
        job.check(code == 2 and found[0] in output, f"'{found[0]}' is not what {arguments} prints (exit {code}):\n{output}")
        print("ok:", found[0])


main()
