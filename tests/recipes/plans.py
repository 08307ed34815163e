"""--plan of the recipes, of their real YAML files: the models are those of the hub, of which the cache here has the configs
alone; the demos' of their own folders. Kinds, totals, tables and prices; and what is said where the hub is out of reach."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

EXAMPLES = f"{job.SOURCE}/examples"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BERT = {"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 30522, "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
        "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "initializer_range": 0.02, "pad_token_id": 0}
BERT_LARGE = {**BERT, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
DISTILBERT = {"architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert", "vocab_size": 30522, "dim": 768,
              "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "max_position_embeddings": 512, "activation": "gelu",
              "sinusoidal_pos_embds": False, "dropout": 0.1, "attention_dropout": 0.1, "initializer_range": 0.02,
              "pad_token_id": 0, "tie_weights_": True}
CACHED = {"google-bert/bert-base-uncased": BERT, "google-bert/bert-large-uncased-whole-word-masking": BERT_LARGE,
          "distilbert/distilbert-base-uncased": DISTILBERT}
TABLE = ["g4dn.xlarge", "p5en.48xlarge", "list prices"]


def make_cache(home):
    """As huggingface_hub leaves it where somebody fetched each config.json."""
    for name, config in CACHED.items():
        folder = f"{home}/hub/models--{name.replace('/', '--')}"
        os.makedirs(f"{folder}/refs")
        os.makedirs(f"{folder}/snapshots/{COMMIT}")
        with open(f"{folder}/refs/main", "w", encoding="utf-8") as file:
            file.write(COMMIT)
        write_config(f"{folder}/snapshots/{COMMIT}", config)


def write_config(folder, config):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    return folder


def plan(program, *arguments, yaml=None):
    file = f"{EXAMPLES}/{program}/{yaml or program}.yaml"
    return job.must_run(["--plan", "--config_file", file, *arguments], program=program)


def expect(text, *parts):
    for part in parts:
        job.check(part in text, f"no '{part}' in\n{text}")


def gib(kind, text):
    match = re.search(rf"^ *([\d.]+) GiB  {re.escape(kind)} ", text, re.M)
    job.check(match, f"no line of '{kind}' in\n{text}")
    return float(match[1])


def check_sum(text):
    """A rank's kinds add up to what it takes, to the digits that are printed."""
    lines = re.findall(r"^ *([\d.]+) GiB  (.*)$", text, re.M)
    end = [what.startswith("a rank ") for _, what in lines].index(True)
    parts = sum(float(number) for number, _ in lines[:end])
    job.check(abs(parts - float(lines[end][0])) < 0.0006 * (end + 1), f"the kinds are {parts} GiB in\n{text}")


def rows_of_table(text):
    """GPU memory: (batch, micro-batches, effective batch) of distilbert's table; and the same of the run."""
    rows, run = {}, None
    for who, batch, steps, effective in re.findall(r"^ +(\d+ GB|this run) +(\d+) +(\d+) +([\d,]+) +[\d.]+$", text, re.M):
        row = (int(batch), int(steps), int(effective.replace(",", "")))
        if who == "this run":
            run = row
        else:
            rows[int(who.split()[0])] = row
    return rows, run


def distilbert():
    text = plan("distilbert", "--instance", "p4d.24xlarge", "--seconds_per_step", "2")
    expect(text, "Memory of 8 rank(s), 8 on each host, on GPUs: 16 bits a weight", "32 x 512 tokens", "teacher's weights",
           "student's weights", "teacher's answer", "gradients of head", "1,000 steps x 2 s = 33.3 minutes; x $21.9576 an hour = $12.20")
    check_sum(text)
    # 109.5 and 67.0 million parameters: 2 bytes each while they work, and 12 for the student's masters and moments.
    job.check(abs(gib("teacher's weights", text) - 109514298 * 2 / 2**30) < 0.001, text)
    job.check(abs(gib("optimizer's moments", text) - 66985530 * 8 / 2**30) < 0.001, text)
    rows, run = rows_of_table(text)
    job.check(run == (32, 16, 4096), f"of this run: {run}")
    job.check(sorted(rows) == [16, 24, 32, 40, 80], text)
    batches = [rows[gb][0] for gb in sorted(rows)]
    job.check(batches == sorted(batches) and batches[0] < batches[-1], f"batches {batches}")
    for batch, steps, effective in rows.values():
        job.check(batch * steps * 8 == effective == 4096, f"{batch} x {steps} x 8 is not {effective}")
    expect(text, "A global batch of 4,096 rows of 512 tokens on 8 GPU(s)", "Inference, one row of 512 tokens", "109.5 M", "67.0 M",
           "The student has 0.61 of the teacher's parameters")
    print("ok: distilbert")


def distilbert_options(folder):
    """What changes the memory of a step changes the plan."""
    whole = plan("distilbert", "--device", "cpu", "--world_size", "2")
    expect(whole, "on CPUs", *TABLE)
    rank = gib("a rank", whole)
    for arguments in (["--gradient_checkpointing"], ["--batch_size", "8"], ["--zero_stage", "2"], ["--gamma", "0"],
                      ["--max_length", "128"]):
        other = gib("a rank", plan("distilbert", "--device", "cpu", "--world_size", "2", *arguments))
        job.check(other < rank, f"{arguments}: {other} GiB, without {rank}")
    dropping = gib("a rank", plan("distilbert", "--device", "cpu", "--world_size", "2", "--dropout"))
    # A process's own size differs from one to the next.
    job.check(abs(dropping - rank) < 0.01, f"--dropout keeps seeds on CPUs: {dropping} GiB, without {rank}")
    # The nearest lower multiple: 48 ranks of 85 rows, in micro-batches of 32.
    odd, run = rows_of_table(plan("distilbert", "--device", "cuda", "--world_size", "48", "--ranks_per_host", "8"))
    job.check(run == (32, 3, 48 * 85), f"of this run: {run}")
    for batch, steps, effective in odd.values():
        job.check(effective == 48 * 85 and batch * (steps - 1) < 85 <= batch * steps, f"{odd}")
    words = plan("distilbert", "--device", "cuda", "--alpha", "0", "--gamma", "0", "--teacher_model", "", "--teacher_layers", "",
                 "--student_checkpoint", write_config(f"{folder}/student", DISTILBERT))
    job.check("teacher" not in words and "Inference" not in words, words)
    demo = plan("distilbert", "--teacher_model", f"{EXAMPLES}/distilbert/teacher", "--device", "cpu", yaml="demo")
    expect(demo, "448 steps x ")  # 14 epochs of 32 steps, as the demo has them
    teacher = plan("distilbert", "--student_checkpoint", f"{EXAMPLES}/distilbert/teacher", "--device", "cpu", yaml="teacher")
    expect(teacher, "the student", "steps x ")
    print("ok: distilbert's options")


def squad(folder):
    text = plan("squad", "--instance", "g4dn.xlarge", "--seconds_per_step", "0.9")
    expect(text, "Memory of 1 rank(s), 1 on each host, on GPUs: 16 bits a weight", "4 x 384 tokens", "It fits",
           "100 steps x 0.9 s = 1.5 minutes; x $0.526 an hour = $0.01")
    check_sum(text)
    job.check(abs(gib("student's masters", text) - 334.1e6 * 4 / 2**30) < 0.01, text)
    job.check("teacher" not in text, text)
    on_cpu = plan("squad", "--device", "cpu", "--fp16", "false", "--max_steps", "-1")
    expect(on_cpu, "float32", "depends on the data", *TABLE)
    taught = plan("squad", "--instance", "g4dn.xlarge", "--teacher_model", write_config(f"{folder}/base", BERT))
    job.check(gib("teacher's weights", taught) > 0.2 and gib("a rank", taught) > gib("a rank", text), taught)
    job.check(gib("a rank", plan("squad", "--instance", "g4dn.xlarge", "--dropout", "false")) < gib("a rank", text), text)
    expect(plan("squad", "--device", "cpu", "--fp16", "false", "--max_length", "600"), "4 x 512 tokens")  # windows are no longer
    print("ok: squad")


def polarity(folder):
    text = plan("polarity", "--instance", "g5.xlarge", "--seconds_per_step", "0.1")
    expect(text, "32 x 128 tokens", "3,125 steps x 0.1 s = 5.2 minutes; x $1.006 an hour = $0.09")  # 100,000 rows, 32 a step
    check_sum(text)
    expect(plan("polarity", "--instance", "p4d.24xlarge", "--max_train_samples", "1000000"), "3,907 steps x ", "= $")
    # 66,955,010: DistilBERT with the head of a classifier of two labels.
    job.check(abs(gib("optimizer's moments", text) - 66955010 * 8 / 2**30) < 0.001, text)
    taught = plan("polarity", "--instance", "g5.xlarge", "--teacher_model", write_config(f"{folder}/base", BERT))
    job.check(gib("teacher's weights", taught) > 0.2, taught)
    expect(plan("polarity", "--device", "cpu"), "float32", *TABLE)
    print("ok: polarity")


def brain2text():
    text = plan("brain2text", "--instance", "g5.2xlarge", "--seconds_per_step", "0.6")
    expect(text, "Each trial is taken as 500 time bins (an assumption", "which give 122 frames", "48 x 122 tokens", "It fits",
           "150,000 steps x 0.6 s = 25.0 hours; x $1.212 an hour = $30.30")
    check_sum(text)
    longer = plan("brain2text", "--instance", "g5.2xlarge", "--trial_bins", "2000")
    job.check(gib("activations", longer) > 3 * gib("activations", text), longer)
    expect(longer, "2000 time bins (as --trial_bins says)")
    for arguments in (["--bidirectional"], ["--n_classes", "1681"], ["--use_amp", "false"]):
        other = plan("brain2text", "--instance", "g5.2xlarge", *arguments)
        job.check(gib("a rank", other) > gib("a rank", text), f"{arguments}:\n{other}")
    expect(plan("brain2text", "--device", "cpu", "--world_size", "4"), "12 x 122 tokens", *TABLE)
    expect(plan("brain2text", "--device", "cpu", yaml="demo"), "500 steps x ")
    print("ok: brain2text")


def page(folder):
    """Each line of the table of docs/recipes.md is what its program prints."""
    qwen = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6}
    small = write_config(f"{folder}/Qwen2-0.5B", {
        **qwen, "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
        "max_position_embeddings": 131072, "vocab_size": 151936, "tie_word_embeddings": True})
    large = write_config(f"{folder}/Qwen2-7B", {
        **qwen, "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "max_position_embeddings": 131072, "vocab_size": 152064, "tie_word_embeddings": False})
    llm = ["--student_model", small, "--teacher_model", large, "--bf16", "--zero_stage", "2", "--max_length", "2048", "--packing",
           "--per_device_train_batch_size", "2"]  # as examples/llm/README.md has it
    with open(f"{job.SOURCE}/docs/recipes.md", encoding="utf-8") as file:
        rows = re.findall(r"^\| (.*) \| `(--instance .*)` \| (\d+) \| ([\d.]+ GiB) \| (.*) \| (\$[\d.]+) \|$", file.read(), re.M)
    job.check(len(rows) == 8, f"{len(rows)} lines in the table")
    for config, arguments, ranks, memory, steps, price in rows:
        yaml = re.fullmatch(r"`examples/(\w+)/\1.yaml`", config)
        text = plan(yaml[1], *arguments.split()) if yaml else job.must_run(["--plan", *arguments.split(), *llm], program="distill_llm")
        expect(text, f"Memory of {ranks} rank(s)", f"{memory}  a rank ", "It fits", f"\n{steps}; x $", f" an hour = {price}\n")
    print("ok: the table of docs/recipes.md")


def refused(program, arguments, expected, code=2, **environment):
    got, output = job.run(["--plan", "--config_file", f"{EXAMPLES}/{program}/{program}.yaml", *arguments], program=program,
                          timeout=60, **environment)
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    job.check(got == code and len(said) == 1 and all(part in said[0] for part in expected),
              f"{program} {arguments}: exit code {got}, wanted {expected}\n{output}")


def refusals(folder):
    empty = {"HF_HOME": f"{folder}/nothing"}
    for program, option in ("distilbert", "teacher_model"), ("squad", "model_name_or_path"), ("polarity", "student_model"):
        refused(program, [], [f"{option}: ", "HF_HUB_OFFLINE is set: fetch it where there is a network", "config.json alone",
                              f"--{option} FOLDER"], **empty)
    refused("distilbert", ["--max_length", "513"], ["max_length is 513", "has positions for 512"])
    refused("distilbert", ["--teacher_layers", "0,12"], ["teacher_layers: there is no layer 12"])
    refused("distilbert", ["--world_size", "5000"], ["global_batch_size is 4096"])
    refused("squad", ["--teacher_model", f"{folder}/none/here"], ["teacher_model", "none/here"])
    refused("polarity", ["--instance", "g5.huge"], ["there is no 'g5.huge'; there are g4dn.xlarge"])
    refused("brain2text", ["--trial_bins", "5"], ["trial_bins: 5 are fewer than patch_size, 14"])
    refused("brain2text", ["--teacher_model", f"{folder}/none"], ["teacher_model", "model_options.yaml"])
    refused("brain2text", ["--world_size", "64"], ["batch_size is 48"])
    code, output = job.run(["--config_file", f"{EXAMPLES}/brain2text/brain2text.yaml", "--trial_bins", "500"], program="brain2text")
    job.check(code == 2 and "--trial_bins goes with --plan" in output, output)
    print("ok: refusals")


def main():
    folder = job.workspace()
    make_cache(f"{folder}/cache")
    os.environ.update({"HF_HOME": f"{folder}/cache", "HF_HUB_OFFLINE": "1"})
    os.environ.pop("HF_HUB_CACHE", None)
    distilbert()
    distilbert_options(folder)
    squad(folder)
    polarity(folder)
    brain2text()
    page(folder)
    refusals(folder)


main()
