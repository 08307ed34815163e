"""evaluate_llm's figures are those of PyTorch, on tiny random models, with a teacher and without; bad input ends in one clear error."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKENIZER = os.path.join(SOURCE, "examples", "llm", "student")
PROGRAM = os.path.join(os.environ["DISTILL_BUILD_DIR"], "bin", "evaluate_llm")
BINS = 15
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>the ' + message['role'] + ' says\\n' + message['content'] + '<|im_end|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>the assistant says\\n' }}{% endif %}")


def check(right, what):
    if not right:
        sys.exit(f"FAILED: {what}")


def make_model(folder, seed, hidden, vocab, tied):
    torch.manual_seed(seed)
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, tie_word_embeddings=tied, bos_token_id=None, eos_token_id=1023))
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(TOKENIZER, name), folder)
    return model


def make_near(folder, teacher, vocab):
    model = make_model(folder, 3, hidden=48, vocab=vocab, tied=False)
    with torch.no_grad():
        for parameter, of_teacher in zip(model.parameters(), teacher.parameters()):
            parameter[:len(of_teacher)] = of_teacher + 0.03 * torch.randn_like(of_teacher)
    model.save_pretrained(folder)


def read(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), transformers.AutoTokenizer.from_pretrained(folder)


def answer_tokens(tokenizer, rows):
    """(ids, where the tokens of answers begin and end) of each row: an answer and the end of its turn."""
    for row in rows:
        text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
        before = tokenizer.apply_chat_template(row["messages"][:-1], tokenize=False, add_generation_prompt=True)
        through = before + row["messages"][-1]["content"] + "<|im_end|>"
        check(text.startswith(through), f"{text!r} does not begin with {through!r}")
        ids = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text, before, through)]
        yield ids[0], len(ids[1]), len(ids[2])


@torch.no_grad()
def log_probabilities(model, tokens, vocab):
    """Of the answers' tokens, and these tokens."""
    found, labels = [], []
    for ids, begin, end in tokens:
        logits = model(torch.tensor([ids])).logits[0, begin - 1:end - 1, :vocab]
        found.append(logits.double().log_softmax(-1))
        labels += ids[begin:end]
    return torch.cat(found), torch.tensor(labels)


def calibration_error(found, labels):
    sure, best = found.exp().max(-1)
    right = (best == labels).double()
    error = 0
    for number in range(BINS):
        within = (sure > number / BINS) & (sure <= (number + 1) / BINS)
        error += (sure[within].sum() - right[within].sum()).abs().item()
    return error / len(labels)


def expected(folder, teacher, rows, vocab, chat_template=None):
    model, tokenizer = read(folder)
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    tokens = list(answer_tokens(tokenizer, rows))
    found, labels = log_probabilities(model, tokens, vocab)
    figures = {"loss": torch.nn.functional.nll_loss(found, labels).item(), "calibration_error": calibration_error(found, labels),
               "parameters": sum(p.numel() for p in model.parameters()),
               "weight_bytes": os.path.getsize(os.path.join(folder, "model.safetensors"))}
    if teacher is not None:
        wanted, _ = log_probabilities(read(teacher)[0], tokens, vocab)
        figures["kl"] = torch.nn.functional.kl_div(found, wanted, log_target=True, reduction="batchmean").item()
        figures["top1_agreement"] = (found.argmax(-1) == wanted.argmax(-1)).double().mean().item()
    return figures


def call(*arguments):
    done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def figures_of(folder, *arguments):
    path = os.path.join(folder, "figures.json")
    code, output = call("--json", path, *arguments)
    check(code == 0, f"exit code {code}: {output}")
    print(output, end="")
    with open(path, encoding="utf-8") as file:
        return json.load(file), output


def compare(name, found, wanted):
    for key, value in wanted.items():
        check(abs(found[key] - value) <= 1e-4 * max(1e-2, abs(value)), f"{name}: {key} is {found[key]}, in PyTorch {value}")


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(SOURCE, "examples", "llm", "generate.py"), "--out", folder], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "held_out.jsonl"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file][:150]
        data = os.path.join(folder, "rows.jsonl")
        write(data, rows)
        teacher, student = f"{folder}/teacher", f"{folder}/student"
        make_model(teacher, 1, hidden=48, vocab=1024, tied=False)
        make_model(student, 2, hidden=32, vocab=1024, tied=True)
        near = f"{folder}/near"  # the teacher with noise and rows of padding: both agree now and then
        make_near(near, read(teacher)[0], vocab=1088)

        found, output = figures_of(folder, "--dataset", data, "--teacher", teacher, f"own={teacher}", f"student={student}",
                                   f"near={near}")
        compare("own", found["own"], {**expected(teacher, teacher, rows, 1024), "kl": 0, "top1_agreement": 1})
        compare("student", found["student"], expected(student, teacher, rows, 1024))
        compare("near", found["near"], expected(near, teacher, rows, 1024))
        check(0.1 < found["near"]["top1_agreement"] < 0.95, f"{found['near']}")
        check(found["student"]["exact_match"] == 0 and found["student"]["tokens_per_second"] > 0, f"{found}")
        check("(150 conversations)" in output and len(output.splitlines()) == 4, output)

        found, output = figures_of(folder, "--dataset", data, f"student={student}", f"other={near}")
        compare("student alone", found["student"], expected(student, None, rows, 1024))
        compare("another alone", found["other"], expected(near, None, rows, 1088))
        check(found["student"]["kl"] is None and found["student"]["top1_agreement"] is None, f"{found}")

        found, _ = figures_of(folder, "--dataset", data, f"student={student}", "--chat_template", TEMPLATE)
        compare("by another template", found["student"], expected(student, None, rows, 1024, TEMPLATE))

        texts = os.path.join(folder, "texts.jsonl")
        write(texts, [{"text": row["messages"][0]["content"]} for row in rows])
        found, output = figures_of(folder, "--dataset", texts, f"student={student}", "--dtype", "bfloat16")
        check(found["student"]["exact_match"] is None and found["student"]["loss"] > 1, f"{found}")

        torn = f"{folder}/torn"
        shutil.copytree(student, torn)
        with open(f"{torn}/chat_template.jinja", "w", encoding="utf-8") as file:
            file.write("{% for %}")
        for arguments, part in (([f"x={student}"], "--dataset_name is required"), (["--dataset", data], "NAME=FOLDER"),
                                (["--dataset", data, student], "expected NAME=FOLDER"),
                                (["--dataset", data, f"x={folder}/none"], f"x: no folder {folder}/none"),
                                (["--dataset", data, f"x={student}", "--teacher", f"{folder}/none"], f"teacher_model: no folder {folder}/none"),
                                (["--dataset", texts, f"x={torn}"], "the tokenizer's chat template"),
                                (["--dataset", texts, f"x={student}", "--chat_template", f"{folder}/none.jinja"], "none.jinja"),
                                (["--dataset", data, f"x={student}", "--dtype", "int8"], "must be one of float32, bfloat16")):
            code, output = call(*arguments)
            check(code != 0 and part in output and output.count("error: ") == 1, f"{arguments}: exit code {code}: {output}")
    print("ok: the figures are PyTorch's")


main()
