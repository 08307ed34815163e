"""docs/models.md: its tables are the families that the code names, the models and tokenizers that golden tests compare
with Python's, and what distill_llm says of others. models.py --write makes them anew."""
import ast
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

PAGE = f"{job.SOURCE}/docs/models.md"
MARK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", flags=re.S)
OTHER_FAMILIES = ["qwen3", "qwen3_moe", "mistral", "gemma3_text", "phi3", "gpt2", "deepseek_v3", "t5"]
# What is put into a good config.json.
OTHER_FIELDS = [("hidden_act", "gelu"), ("use_sliding_window", True), ("num_experts", 8), ("qk_norm", True),
                ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}), ("partial_rotary_factor", 0.5),
                ("quantization_config", {"bits": 4})]
# Whose tokenizer.json has it, and how a good one is changed.
OTHER_TOKENIZERS = [
    ("words that end in a mark", "CLIP", ["model", "end_of_word_suffix"], "</w>"),
    ("dropout of merges", "", ["model", "dropout"], 0.1),
    ("bytes before they are cut into words", "", ["normalizer"], {"type": "ByteLevel"}),
    ("words by script", "", ["pre_tokenizer"], {"type": "UnicodeScripts"}),
    ("a decoder of speech", "wav2vec2", ["decoder"], {"type": "CTC", "pad_token": "_", "word_delimiter_token": "|", "cleanup": True}),
]
PARTS = {"model": ["model", "type"], "normalizer": ["normalizer"], "pre_tokenizer": ["pre_tokenizer"],
         "post_processor": ["post_processor"], "decoder": ["decoder"]}


def cases_of(name, variable):
    """The keys of a dictionary in tests/golden/NAME.py."""
    with open(f"{job.SOURCE}/tests/golden/{name}.py", encoding="utf-8") as file:
        for node in ast.parse(file.read()).body:
            if isinstance(node, ast.Assign) and node.targets[0].id == variable:
                return [key.value for key in node.value.keys]
    raise KeyError(variable)


def families_of(name):
    """Those that libdistill/nn/NAME.cc reads."""
    with open(f"{job.SOURCE}/libdistill/nn/{name}.cc", encoding="utf-8") as file:
        return re.findall(r'"(\w+)"', re.search(r"ReadModelType\(document, ([^)]*)\)", file.read()).group(1))


def code(names):
    return ", ".join(f"`{name}`" for name in names)


def table(head, rows):
    lines = [" | ".join(head), "|".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" if i != 1 else f"|{line}|" for i, line in enumerate(lines))


def supported():
    rows = []
    for family in families_of("decoder_config"):
        cases = [case for case in cases_of("nn_golden", "CASES") if case.startswith(family)]
        rows.append([f"`{family}`", "decoder: teacher, student", "logits, gradients, packing, greedy answers", code(cases)])
    for family in families_of("encoder_config"):
        cases = [case for name in ("encoder_golden", "heads_golden") for case in cases_of(name, "CASES")
                 if case.removeprefix("new_").startswith(family)]
        rows.append([f"`{family}`", "encoder: masked words, classes, spans", "logits, gradients, packing", code(cases)])
    for row in rows:
        job.check(row[3], f"no golden test has a model of {row[0]}")
    return table(["`model_type`", "what it is", "compared with transformers", "the test's models"], rows)


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


def other_models(folder):
    families = list(refused(folder, "config.json", [(name, ["model_type"], name) for name in OTHER_FAMILIES]))
    messages = {message.replace(f'"{name}" is not', '"..." is not') for name, message in families}
    job.check(len(messages) == 1, f"families are refused in more than one way: {messages}")
    fields = refused(folder, "config.json", [(f"`{name}`", [name], value) for name, value in OTHER_FIELDS])
    return table(["config.json has", "message"], [[f"`model_type`: {code(OTHER_FAMILIES)}", *messages], *fields])


def tokenizers(folder):
    """What the message about an unknown kind of each part says."""
    changes = [(part, keys, "Other" if part == "model" else {"type": "Other"}) for part, keys in PARTS.items()]
    rows = [[f"`{part}`", message.split("supported: ")[1].rstrip("`")] for part, message in refused(folder, "tokenizer.json", changes)]
    return table(["part of tokenizer.json", "kinds"], rows)


def other_tokenizers(folder):
    changes = [(kind + (f" ({whose})" if whose else ""), keys, value) for kind, whose, keys, value in OTHER_TOKENIZERS]
    return table(["tokenizer.json has", "message"], refused(folder, "tokenizer.json", changes))


def main():
    folder = f"{job.workspace()}/model"
    makers = {"supported": lambda _: supported(), "other_models": other_models, "tokenizers": tokenizers,
              "other_tokenizers": other_tokenizers}
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    job.check({name for _, name, _ in MARK.findall(page)} == set(makers), "docs/models.md lacks a part that is made")
    made = MARK.sub(lambda part: part.group(1) + makers[part.group(2)](folder) + "\n" + part.group(3), page)
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(made)
    else:
        job.check(made == page, "docs/models.md is not what the code does: run tests/project/models.py --write")
        print("ok: the tables of docs/models.md")


main()
