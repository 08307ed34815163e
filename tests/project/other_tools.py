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


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def code(name):
    return f"`{name}`"


class Names:
    """What `distill_llm --help_markdown` says: our own names, their aliases, maps, and names that are no options."""

    def __init__(self, page):
        self.own, self.flags, self.alias, self.foreign, self.keys = set(), set(), {}, {}, {}
        own = self.own
        for line in page.split("\n"):
            if line.startswith("## "):
                own = self.flags if line == "## Instead of training" else self.own
            row = cells(line)
            if not line.startswith("| `"):
                continue
            if row[0].endswith(":`"):
                renamed = dict(re.findall(r"`(\w+)` for `(\w+)`", row[1]))
                self.keys[row[0].strip("`:")] = renamed
            elif len(row) == 5:
                self._add_option(row, own)
            else:
                self.foreign[row[0].strip("`")] = (row[1], row[2])

    def _add_option(self, row, to):
        own = row[0].strip("`")
        to |= {own, own.split(".")[0]}
        for name, values in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", row[4]):
            self.alias[name] = code(own) + (f" ({values})" if values else "")

    def meaning(self, key):
        """None where it is the same name; else what to write of it."""
        section, _, inner = key.rpartition(".")
        flat = self.keys.get(section, {}).get(inner, inner) if section in self.keys else key
        if flat in self.flags:
            return f"`--{flat}` stands on the command line alone, beside --generate"
        if flat in self.own:
            return None if flat == inner else code(flat)
        if flat in self.alias:
            return self.alias[flat]
        if flat in self.foreign:
            accepted, reason = self.foreign[flat]
            return f"{reason}; accepted: {accepted}" if accepted else f"refused: {reason}"
        job.check(key in self.keys, f"{key} is no name here: say in examples/llm/other_tools.h what to do about it")
        return "a map of options, by their names"


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
    job.check(exit_code == 2 and "--lmbda: 0.5: the student learns from the rows" in output, f"exit code {exit_code}: {output}")


def all_errors_of_a_file_come_at_once():
    path = os.path.join(job.workspace(), "wrong.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("lmbda: 0.5\nseed: 42\nloss_functions: [{function: kl}]\nteacher: {kind: s3, path: here}\nlerning_rate: 1\n"
                   "trackio_space_id: null\n")
    exit_code, output = job.run([path])
    wanted = [":1: lmbda: 0.5: the student", ":3: loss_functions: the loss is", ":4: teacher_kind: s3: teacher_model is",
              ":5: unknown key 'lerning_rate'; did you mean 'learning_rate'?"]
    found = [line for line in output.splitlines() if path in line]
    job.check(exit_code == 2 and len(found) == len(wanted) and all(text in line for text, line in zip(wanted, found)),
              f"exit code {exit_code}: {output}")


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
    all_errors_of_a_file_come_at_once()
    print("ok: tables and examples of docs/from_other_tools.md")


main()
