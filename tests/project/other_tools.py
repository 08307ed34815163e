"""docs/from_other_tools.md: its tables are what distill_llm says of these tools' names, and its examples run.

other_tools.py --write makes the tables of the page anew. other_tools.json has the names of each tool's options.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job

PAGE = f"{job.SOURCE}/docs/from_other_tools.md"
NAMES = f"{job.SOURCE}/tests/project/other_tools.json"
HUB = "nothing is sent anywhere: upload output_dir"
ONE_LOSS = "only what the assistant wrote has a loss, always"
DATA = "dataset_name, dataset_split and eval_dataset_name say which rows are read"
TEACHER = "teacher_model takes a model folder"
WHOLE = "all weights are trained"
LOSS = "the loss is cross-entropy and a divergence: alpha, beta, temperature; others are written in C++ (extending.md)"
ON_POLICY = "the student learns from the rows of the data set, not from its own answers"
# What to do about names that no program of ours knows: it refuses them.
INSTEAD = {
    "hub_.*": HUB,
    "trackio_.*": "report_to: curves are in output_dir, as JSON lines, TensorBoard or CSV",
    "torch_compile_.*": "there is nothing to compile",
    "dataloader_.*": "one thread makes batches ahead, in order",
    "eval_do_concat_batches|eval_use_gather_object|batch_eval_metrics|include_for_metrics|label_names":
        "the task says what an evaluation gathers",
    "accelerator_config|parallelism_config": "the launcher says how many ranks there are, zero_stage what they shard",
    "activation_checkpointing_kwargs": "gradient_checkpointing takes no arguments",
    "liger_kernel_config": "the loss never holds whole logits",
    "optim_target_modules": "AdamW is the only optimizer",
    "enable_jit_checkpoint": "SIGTERM and SIGUSR1 always save a checkpoint (operations.md)",
    "length_column_name": "packing wastes no padding",
    "restore_callback_states_from_checkpoint": "a run that resumes has all its state",
    "log_level_replica|debug|skip_memory_metrics|torch_empty_cache_steps|include_num_input_tokens_seen":
        "leave it out; metrics.jsonl has what each step took",
    "assistant_only_loss|completion_only_loss": ONE_LOSS,
    "loss_type|loss_functions|layer_mapping|force_hidden_state_projection": LOSS,
    "lmbda|seq_kd": ON_POLICY,
    "packing_strategy|padding_free|eval_packing|functionary_packing|dataset.prepacked":
        "packing: true fills rows with whole samples, without attention across them",
    "pad_to_multiple_of|resize_embeddings_to_multiple_of": "leave it out: the shapes stay as they are",
    "truncation_mode": "longer samples keep their start",
    "shuffle_dataset": "each epoch is shuffled, from seed",
    "dataset_text_field|dataset_kwargs|dataset.prepared_dataset_path": "rows are conversations (formats.md), tokenized at the start",
    "eos_token|pad_token|dataset.eos_label_token_ids": "the model's folder names its tokens",
    "dataset.train_dataset|dataset.eval_dataset|dataset.num_eval_samples": DATA,
    "teacher.kind|teacher.path|teacher.kwargs|teacher_model_init_kwargs": TEACHER,
    "teacher.top_k": "a teacher's whole distribution is learnt",
    "model_init_kwargs|model_kwargs|model_auto_class": "config.json in the folder says what the model is",
    "trust_remote_code|model_revision": "models are folders on this machine; no code of theirs runs",
    "disable_dropout": "no dropout in a decoder unless a program asks for it",
    "activation_offloading": "gradient_checkpointing: true saves memory",
    "training_args": "its keys stand in the file by their names, or under training:",
    "frozen_modules|frozen_res": WHOLE,
}


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def code(name):
    return f"`{name}`"


class Names:
    """What `distill_llm --help_markdown` says: our own names, their aliases, maps, and names that are no options."""

    def __init__(self, page):
        self.own, self.alias, self.foreign, self.keys = set(), {}, {}, {}
        for line in page.split("\n"):
            row = cells(line)
            if not line.startswith("| `"):
                continue
            if row[0].endswith(":`"):
                renamed = dict(re.findall(r"`(\w+)` for `(\w+)`", row[1]))
                self.keys[row[0].strip("`:")] = renamed
            elif len(row) == 5:
                self._add_option(row)
            else:
                self.foreign[row[0].strip("`")] = (row[1], row[2])

    def _add_option(self, row):
        own = row[0].strip("`")
        self.own |= {own, own.split(".")[0]}
        for name, values in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", row[4]):
            self.alias[name] = code(own) + (f" ({values})" if values else "")

    def meaning(self, key):
        """None where it is the same name; else what to write of it."""
        section, _, inner = key.rpartition(".")
        flat = self.keys.get(section, {}).get(inner, inner) if section in self.keys else key
        if flat in self.own:
            return None if flat == inner else code(flat)
        if flat in self.alias:
            return self.alias[flat]
        if flat in self.foreign:
            accepted, reason = self.foreign[flat]
            return f"{reason}; accepted: {accepted}" if accepted else f"refused: {reason}"
        advice = [text for names, text in INSTEAD.items() if re.fullmatch(names, key)]
        job.check(len(advice) == 1, f"{key} is no name here, and INSTEAD has {len(advice)} words about it")
        return f"unknown: {advice[0]}"


def tables(names):
    with open(NAMES, encoding="utf-8") as file:
        tools = json.load(file)
    out = []
    for tool, keys in tools.items():
        meanings = {key: names.meaning(key) for key in keys}
        same = ", ".join(code(key) for key, meaning in meanings.items() if meaning is None)
        out.append(f"### {tool}\n\n")
        out.append(f"The same here: {same}.\n\n" if same else "")
        out.append(f"| {tool.split()[0]} | here |\n|---|---|\n")
        out += [f"| {code(key)} | {meaning} |\n" for key, meaning in meanings.items() if meaning is not None]
        out.append("\n")
    unused = [pattern for pattern in INSTEAD
              if not any(re.fullmatch(pattern, key) for keys in tools.values() for key in keys)]
    job.check(not unused, f"INSTEAD speaks of names that no tool has: {unused}")
    return "".join(out)


def transformers_names_are_all(python):
    """Where transformers is installed: the list has every field of its TrainingArguments."""
    if not os.path.exists(python):
        print(f"not compared with transformers: there is no {python} (scripts/setup --oracles makes it)")
        return
    script = ("import dataclasses, transformers; "
              "print(*(f.name for f in dataclasses.fields(transformers.TrainingArguments)))")
    fields = subprocess.run([python, "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with open(NAMES, encoding="utf-8") as file:
        known = set(json.load(file)["transformers TrainingArguments"])
    job.check(set(fields) <= known, f"{NAMES} lacks {sorted(set(fields) - known)}")


def run_examples(page):
    """The page's config file and command, with small models in the place of theirs."""
    folder = job.workspace()
    job.make_model(f"{folder}/teacher", seed=1, hidden=48)
    job.make_model(f"{folder}/student", seed=2)
    job.make_chat(f"{folder}/rows.jsonl", rows=16)
    small = ["--teacher_model", f"{folder}/teacher", "--student_model", f"{folder}/student", "--dataset_name",
             f"{folder}/rows.jsonl", "--max_steps", "2", "--logging_steps", "1", "--device", "cpu", "--bf16", "false",
             "--use_flash_attention", "false"]
    file = re.search(r"```yaml\n(.*?)```", page, flags=re.S).group(1)
    with open(f"{folder}/distillkit.yaml", "w", encoding="utf-8") as out:
        out.write(file)
    job.must_run(["--config_file", f"{folder}/distillkit.yaml", *small, "--output_dir", f"{folder}/kit"])
    job.check(len(job.metrics(f"{folder}/kit")) == 2, "DistillKit's file did not train two steps")
    command = re.search(r"```sh\n(distillrun -np 2 distill_llm .*?)```", page, flags=re.S).group(1)
    arguments = command.replace("\\\n", " ").split()[4:]
    job.must_run([*arguments, *small, "--output_dir", f"{folder}/trl"], ranks=2)
    job.check(len(job.metrics(f"{folder}/trl")) == 2, "TRL's options did not train two steps")
    exit_code, output = job.run(["--lmbda", "0.5"])
    job.check(exit_code == 2 and "unknown option '--lmbda'" in output, f"exit code {exit_code}: {output}")


def main():
    listed = subprocess.run([f"{job.BIN}/distill_llm", "--help_markdown"], stdout=subprocess.PIPE, text=True, check=True)
    made = tables(Names(listed.stdout))
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    head, tables_on_page = page.split("## Name by name\n\n")
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(f"{head}## Name by name\n\n{made.rstrip()}\n")
        return
    job.check(tables_on_page == made.rstrip() + "\n",
              "docs/from_other_tools.md is not what the program says: run tests/project/other_tools.py --write")
    transformers_names_are_all(os.environ.get("DISTILL_ORACLES_PYTHON", ""))
    run_examples(page)
    print("ok: tables and examples of docs/from_other_tools.md")


main()
