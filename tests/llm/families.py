"""What distill_llm does with every family of decoders, as student or as teacher: the table `works` of docs/models.md.
families.py --write makes it anew. The models are those of tests/golden/nn_golden.py."""
import glob
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job
from made_page import table, write_or_check

MODELS = os.path.join(os.environ.get("DISTILL_BUILD_DIR", os.path.join(job.SOURCE, "build")), "golden", "nn")
# model_type: the model that stands for it.
FAMILIES = {"qwen2": "qwen2_tied", "qwen3": "qwen3_tied_shards", "llama": "llama_shards",
            "mistral": "mistral_window_shards", "smollm3": "smollm3_tied_shards", "olmo2": "olmo2_shards",
            "phi3": "phi3_long", "gemma2": "gemma2_tied_shards", "gemma3_text": "gemma3_text_tied_shards",
            "qwen2_moe": "qwen2_moe_shards", "qwen3_moe": "qwen3_moe_shards", "gpt_oss": "gpt_oss_shards"}
OTHER = "llama_grouped"  # the teacher of students, and the student of those that are teachers alone


def data(folder):
    """Words that the models' tokenizer has."""
    path = f"{folder}/chat.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for i in range(16):
            words = [" ".join(f"w{(7 * i + 3 * k + turn) % 100}" for k in range(3 + (5 * i + turn) % 9)) for turn in (0, 1)]
            row = [{"role": "user", "content": words[0]}, {"role": "assistant", "content": words[1]}]
            file.write(json.dumps({"messages": row}) + "\n")
    return path


def model_folder(folder, name):
    """A copy of the model with no other tokens than the others: some families have tokens where nothing else is said."""
    path = f"{folder}/models/{name}"
    if not os.path.isdir(path):
        shutil.copytree(f"{MODELS}/{name}/model", path)
        with open(f"{path}/tokenizer_config.json", "w", encoding="utf-8") as file:
            json.dump({f"{kind}_token": "w0" for kind in ("unk", "bos", "eos", "pad")}, file)
    return path


def train(folder, name, chat, teacher, student, ranks, **options):
    """The losses of each step."""
    out = f"{folder}/{name}"
    config = job.config(folder, dataset_name=chat, teacher_model=model_folder(folder, teacher), output_dir=out,
                        student_model=model_folder(folder, student), chat_template="chatml", global_batch_size=4,
                        max_steps=3, gradient_accumulation_steps=4 // ranks, **options)
    job.must_run(["--config_file", config], ranks=ranks)
    return [record["loss"] for record in job.records(out)]


def is_refused(*arguments):
    """The reason, or "" where the program runs."""
    code, output = job.run(arguments)
    if code == 0:
        return ""
    job.check(code == 2, f"exit code {code}: {output}")
    return re.search(r"error: (.*)", output).group(1)


def answers(path, prompt):
    """Whether the model says five words; a random one may end its answer at once."""
    answer = job.must_run(["--generate", path, "--prompt", prompt, "--chat_template", "chatml", "--max_new_tokens", "5"])
    return len(re.findall(r"\bw\d+", answer)) >= 5


def check_family(folder, chat, family, model):
    """The cells of the family's row."""
    path = model_folder(folder, model)
    refusal = is_refused("--plan", "--teacher_model", path, "--student_model", path)
    job.check(refusal == "" or "no student" in refusal, refusal)
    teacher, student = (model, OTHER) if refusal else (OTHER, model)
    whole = train(folder, f"{model}-1", chat, teacher, student, ranks=1)
    sharded = train(folder, f"{model}-2", chat, teacher, student, ranks=2, zero_stage=3, shard_teacher=True,
                    gradient_checkpointing=True)
    job.check(len(whole) == 3 and all(abs(a - b) < 2e-5 * a for a, b in zip(whole, sharded)), f"{model}: {whole} and {sharded}")
    job.must_run(["--plan", "--teacher_model", model_folder(folder, teacher), "--student_model", model_folder(folder, student)])
    job.check(any(answers(path, prompt) for prompt in ("w3 w5", "w9 w20 w30")), f"{model}: no answer")
    # A plan of the model as its own teacher, or as another one's.
    flash = is_refused("--plan", "--use_flash_attention", "true", "--teacher_model", path, "--student_model",
                       model_folder(folder, student), "--max_length", "4096")
    reason = re.search(r"has (.*), which torch", flash)
    return [f"`{family}`", "teacher" if refusal else "teacher, student", "yes", "teacher's" if refusal else "yes",
            "-" if refusal else "yes", "yes", "yes", f"no: {reason.group(1)}" if reason else "yes"]


def works():
    folder = job.workspace()
    chat = data(folder)
    rows = [check_family(folder, chat, family, model) for family, model in FAMILIES.items()]
    return table(["`model_type`", "use", "1 and 2 ranks, same losses", "zero_stage 3", "gradient_checkpointing", "--plan",
                  "--generate", "use_flash_attention, on GPUs"], rows)


def check_families():
    """Every family of the library is here."""
    sources = ""
    for path in sorted(glob.glob(f"{job.SOURCE}/libdistill/nn/families/*.cc")):
        with open(path, encoding="utf-8") as file:
            sources += file.read()
    named = re.findall(r'\.model_type = "(\w+)"', sources)
    job.check(sorted(named) == sorted(FAMILIES), f"the library has {sorted(named)}, this test {sorted(FAMILIES)}")


if not os.path.isdir(MODELS):
    print("skipped: no models; tests/golden/nn_golden.py makes them")
    sys.exit(77)
check_families()
write_or_check("models.md", {"works": works}, elsewhere=["supported", "gguf", "other_models"])
