"""A student is saved with the chat template that it was trained with: here, in transformers, and in what answers."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

QUESTION = "which template?"
TEMPLATE = ("{% for m in messages %}{% if m.content == '" + QUESTION + "' %}{{ raise_exception('the one that was saved') }}"
            "{% endif %}<|im_start|>{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>"
            "{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}")
IN_TRANSFORMERS = """
import sys, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
print(tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True), end="")
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def train(folder, out, **options):
    return job.must_run(["--config_file", job.config(
        folder, dataset_name=f"{folder}/chat.jsonl", teacher_model=f"{folder}/teacher", student_model=f"{folder}/student",
        output_dir=out, max_steps=1, **options)])


def rendered_by_transformers(folder):
    python = os.environ["DISTILL_ORACLES_PYTHON"]
    return subprocess.run([python, "-c", IN_TRANSFORMERS, folder], check=True, stdout=subprocess.PIPE, text=True).stdout


def check_own_template(folder):
    out = f"{folder}/own"
    with open(f"{folder}/own.jinja", "w", encoding="utf-8") as file:
        file.write(TEMPLATE)
    output = train(folder, out, chat_template=f"{folder}/own.jinja")
    job.check(f"chat template: {folder}/own.jinja" in output, f"the template is not named:\n{output}")
    job.check(read(f"{out}/chat_template.jinja") == TEMPLATE, "another template was saved")
    was, now = (json.loads(read(f"{path}/tokenizer_config.json")) for path in (f"{folder}/student", out))
    job.check(now.pop("chat_template") == TEMPLATE and was.pop("chat_template") != TEMPLATE, "tokenizer_config.json")
    job.check(list(was.items()) == list(now.items()), "another field of tokenizer_config.json was changed")
    wanted = "<|im_start|>user: Hi<|im_end|><|im_start|>assistant: "
    job.check(rendered_by_transformers(out) == wanted, f"transformers renders {rendered_by_transformers(out)!r}")
    code, output = job.run(["--generate", out, "--prompt", QUESTION])
    job.check(code != 0 and "the one that was saved" in output, f"--generate takes another template:\n{output}")
    job.must_run(["--generate", out, "--prompt", "Hi", "--max_new_tokens", "4"])

    with open(f"{folder}/asked.jsonl", "w", encoding="utf-8") as file:
        turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Hi"}]
        file.write(json.dumps({"messages": turns}) + "\n")
    for model, wanted in ((f"{folder}/teacher", False), (out, True)):
        code, output = job.run(["--teacher", f"{folder}/teacher", "--dataset", f"{folder}/asked.jsonl", f"m={model}"],
                               program="evaluate_llm")
        job.check((code != 0) == wanted == ("the one that was saved" in output), f"{model}, {code}:\n{output}")
    print("ok: a template of one's own is saved, here and for transformers, and is what answers")


def check_no_template(folder):
    """A tokenizer without a template: which one is taken is said, and saved."""
    for name in ("teacher", "student"):
        path = f"{folder}/{name}/tokenizer_config.json"
        config = json.loads(read(path))
        config.pop("chat_template")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
    out = f"{folder}/none"
    output = train(folder, out)
    job.check("chat template: the ChatML template (the tokenizer has none" in output, f"it is not said:\n{output}")
    wanted = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    job.check(rendered_by_transformers(out) == wanted, f"transformers renders {rendered_by_transformers(out)!r}")
    print("ok: a tokenizer without a template is told of ChatML, which is saved")


def check_same_template(folder):
    """Where nothing was asked for, the tokenizer's files are copied as they are."""
    out = f"{folder}/same"
    train(folder, out)
    job.check(not os.path.exists(f"{out}/chat_template.jinja"), "a template was added")
    job.check(read(f"{out}/tokenizer_config.json") == read(f"{folder}/student/tokenizer_config.json"), "was changed")
    print("ok: the tokenizer's own template is saved as it is")


def main():
    folder = job.workspace()
    job.make_chat(f"{folder}/chat.jsonl", 8)
    job.make_model(f"{folder}/teacher", seed=1)
    job.make_model(f"{folder}/student", seed=2)
    check_same_template(folder)
    check_own_template(folder)
    check_no_template(folder)


main()
