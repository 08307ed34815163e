"""distill_llm and its siblings with names of the hub: they train as folders do, a host downloads once, all ranks take one commit, and
every rank has the same error."""
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import job  # noqa: E402
from hub_server import Fault, HubServer  # noqa: E402


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def bodies(hub):
    return sorted(line.split()[1] for line in hub.take_log() if line.startswith("GET ") and "/api/" not in line)


def losses(folder):
    return [record["loss"] for record in job.records(folder)]


def has(text, *parts):
    for part in parts:
        job.check(part in text, f"no {part!r} in:\n{text}")


folder = job.workspace()
job.make_model(f"{folder}/teacher", 1)
job.make_model(f"{folder}/student", 2, hidden=16)
job.make_chat(f"{folder}/train.jsonl", 12)
job.make_chat(f"{folder}/test.jsonl", 4, seed=2)
for name in ("first", "second"):
    os.makedirs(f"{folder}/{name}")


def rows(count, seed):
    return {"data/train.jsonl": Path(job.make_chat(f"{folder}/made.jsonl", count, seed=seed)).read_bytes(),
            "data/test.jsonl": Path(f"{folder}/test.jsonl").read_bytes()}


with HubServer() as hub:
    teacher = hub.add("model", "org/teacher", files_of(f"{folder}/teacher"), is_gated=True)
    student = hub.add("model", "org/student", files_of(f"{folder}/student"))
    data = hub.add("dataset", "org/rows", rows(12, 1))
    home = hub.environment(f"{folder}/home")
    named = dict(teacher_model="org/teacher", student_model="org/student", dataset_name="org/rows", eval_dataset_name="org/rows",
                 eval_strategy="epoch", max_steps=3, cache_dir=f"{folder}/tokens")

    # The same losses as with folders; two ranks of a host fetch each file once.
    local = dict(named, teacher_model=f"{folder}/teacher", student_model=f"{folder}/student", dataset_name=f"{folder}/train.jsonl",
                 eval_dataset_name=f"{folder}/test.jsonl")
    job.must_run(["--config_file", job.config(folder, output_dir=f"{folder}/local", **local)], ranks=2)
    hub.faults = [Fault("signature=1", "slow 200000", 2)]
    said = job.must_run(["--config_file", job.config(folder, output_dir=f"{folder}/named", **named)], ranks=2, **home)
    job.check(losses(f"{folder}/named") == losses(f"{folder}/local"), "names and folders of the same files give other losses")
    asked = bodies(hub)
    job.check(len(asked) == len(set(asked)) and len(asked) >= 8, f"not each file once: {asked}")
    has(said, "downloaded org/teacher", "downloaded org/rows")

    # What the run keeps repeats it, although main has moved on; and its student is no name.
    with open(f"{folder}/named/resolved_config.yaml", encoding="utf-8") as file:
        kept = file.read()
    has(kept, f"org/teacher@{teacher}", f"org/student@{student}", f"org/rows@{data}")
    hub.add("dataset", "org/rows", rows(30, 3))
    job.must_run(["--config_file", f"{folder}/named/resolved_config.yaml", "--output_dir", f"{folder}/again"], ranks=2, **{**home, "HF_HUB_OFFLINE": "1"})
    job.check(losses(f"{folder}/again") == losses(f"{folder}/named"), "the kept config gives other losses")
    job.check(bodies(hub) == [], "the repeated run asked for files")
    job.must_run(["--config_file", job.config(folder, output_dir=f"{folder}/moved", **named)], ranks=2, **home)
    job.check(losses(f"{folder}/moved") != losses(f"{folder}/named"), "main was not looked up again")
    job.must_run(["--config_file", job.config(folder, output_dir=f"{folder}/back", dataset_revision=data, **named)], ranks=1, **home)
    job.must_run(["--config_file", job.config(folder, output_dir=f"{folder}/one", **local)], ranks=1)
    job.check(losses(f"{folder}/back") == losses(f"{folder}/one"), "dataset_revision was not taken")

    # A run that resumes takes the commit that it began with.
    begun = dict(named, output_dir=f"{folder}/resumed", save_steps=2)
    job.must_run(["--config_file", job.config(folder, **dict(begun, max_steps=2))], ranks=2, **home)
    now = hub.repository("dataset", "org/rows").branches["main"]
    hub.add("dataset", "org/rows", rows(12, 5))
    job.must_run(["--config_file", job.config(folder, **dict(begun, resume_from_checkpoint="latest", max_steps=4))], ranks=2, **home)
    with open(f"{folder}/resumed/resolved_config.yaml", encoding="utf-8") as file:
        has(file.read(), f"org/rows@{now}")
    # Also where its checkpoint is in another folder than the run that resumes.
    elsewhere = dict(begun, output_dir=f"{folder}/elsewhere", resume_from_checkpoint=f"{folder}/resumed/checkpoint-2", max_steps=4)
    job.must_run(["--config_file", job.config(folder, **elsewhere)], ranks=2, **home)
    with open(f"{folder}/elsewhere/resolved_config.yaml", encoding="utf-8") as file:
        has(file.read(), f"dataset_name: \"org/rows@{now}\"")

    # The card of a data set may name the files of a config's splits.
    card = (b"---\nconfigs:\n- config_name: chats\n  data_files:\n  - split: train\n    path: questions.jsonl\n  - split: test\n"
            b"    path: held_out/*.jsonl\n- config_name: other\n  data_files: train.jsonl\n---\n")
    hub.add("dataset", "org/configs", {"README.md": card, "questions.jsonl": Path(f"{folder}/train.jsonl").read_bytes(), "train.jsonl": b"{}\n",
                                       "held_out/z.jsonl": Path(f"{folder}/test.jsonl").read_bytes()})
    config = dict(named, dataset_name="hf://org/configs/chats", eval_dataset_name="hf://org/configs/chats", eval_split="test")
    job.must_run(["--config_file", job.config(folder, output_dir=f"{folder}/config", **config)], ranks=2, **home)
    job.check(losses(f"{folder}/config") == losses(f"{folder}/local"), "a config of the card gives other losses than its files")
    job.check(job.evaluations(f"{folder}/config") == job.evaluations(f"{folder}/local"), "its held-out split is another one")

    # Models and data sets may have the same name, or one that ends as another does.
    hub.add("model", "org/same", files_of(f"{folder}/teacher"))
    for name, seed in (("org/same", 1), ("my-org/same", 2)):
        hub.add("dataset", name, rows(12, seed))
    same = dict(named, output_dir=f"{folder}/same", save_steps=2, teacher_model="org/same", dataset_name="org/same", eval_dataset_name="my-org/same")
    job.must_run(["--config_file", job.config(folder, **dict(same, max_steps=2))], ranks=1, **home)
    with open(f"{folder}/same/resolved_config.yaml", encoding="utf-8") as file:
        kept = [line for line in file if "same@" in line]
    job.must_run(["--config_file", job.config(folder, **dict(same, resume_from_checkpoint="latest", max_steps=4))], ranks=1, **home)
    with open(f"{folder}/same/resolved_config.yaml", encoding="utf-8") as file:
        job.check(kept == [line for line in file if "same@" in line] and len(kept) == 3, f"other commits than {kept}")
    job.check(any(entry.startswith("org--same-") for entry in os.listdir(f"{folder}/tokens")), "the tokens have not the data set's name")

    # Hosts, which have caches of their own, take one commit; here each rank has one, as no host of the same files would.
    hub.take_log()
    both = f'if [ "$DISTILL_RANK" = 0 ]; then export HF_HOME={folder}/first HF_HUB_CACHE=; else export HF_HOME={folder}/second HF_HUB_CACHE=; fi; exec "$@"'
    done = subprocess.run([f"{job.BIN}/distillrun", "-np", "2", "/bin/sh", "-c", both, "sh", f"{job.BIN}/distill_llm", "--config_file",
                           job.config(folder, output_dir=f"{folder}/hosts", **named)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=job.environment(**home), timeout=180)
    job.check(done.returncode == 0, done.stdout)
    lookups = [line for line in hub.take_log() if "/revision/" in line]
    job.check(len(lookups) == 4, f"others than rank 0 looked names up: {lookups}")

    # Who waits for a download waits for as long as it takes, whatever the time-outs.
    weights = os.path.getsize(f"{folder}/teacher/model.safetensors")
    hub.faults = [Fault("signature=1", f"slow {weights / 12:.0f}")]
    patient = dict(named, output_dir=f"{folder}/patient", comm_timeout_seconds=4, phase_timeout_seconds=4)
    start = time.monotonic()
    job.must_run(["--config_file", job.config(folder, **patient)], ranks=2, **{**home, "HF_HUB_CACHE": f"{folder}/patient_cache"})
    job.check(time.monotonic() - start > 10, "the download was not slow")

    # Every rank has the same error, with the option that it is of; nothing hangs.
    def refused(*parts, ranks=2, **options):
        environment = {name: options.pop(name) for name in list(options) if name.isupper()}
        code, output = job.run(["--config_file", job.config(folder, output_dir=f"{folder}/refused", **dict(named, **options))], ranks=ranks,
                               timeout=100, **{**home, **environment})
        job.check(code == 2, f"code {code}\n{output}")
        has(output, *parts)

    refused("teacher_model: no file or folder here is called org/none, and as a name of the hub: cannot look up org/none", teacher_model="org/none")
    refused("student_model: ", "it has no revision 'v2'", student_model="org/student", student_revision="v2")
    refused("teacher_model: ", "org/teacher", "it is gated", HF_TOKEN="", HF_HOME=f"{folder}/empty", HF_HUB_CACHE=f"{folder}/empty/hub")
    refused("dataset_name: ", "no file of rows in it is called dev*", dataset_split="dev")
    refused("dataset_name: ", "org/configs: it has the configs chats, other: name one of them", dataset_name="org/configs")
    refused("student_model: no folder a/b/c here", student_model="a/b/c")

    # The others.
    hub.take_log()
    chosen = [f"{job.BIN}/distill_llm", "--plan", "--student_model", "org/student", "--teacher_model", "org/teacher", "--dataset_name", "org/rows"]
    plan = subprocess.run(chosen, env=job.environment(**{**home, "HF_HUB_CACHE": f"{folder}/plan"}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    job.check(plan.returncode == 0, plan.stdout)
    asked = bodies(hub)
    job.check([path for path in asked if "config.json" not in path] == [], f"a plan fetched more than configs: {asked}")
    job.must_run(["--generate", "org/student", "--prompt", "red", "--max_new_tokens", "2"], **home)
    judged = job.must_run(["--teacher_model", "org/teacher", "--dataset_name", f"org/rows@{data}", "--split", "test", "student=org/student"],
                          program="evaluate_llm", **home)
    has(judged, "4 conversations")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("red green")
        text.flush()
        has(job.must_run(["--count", "org/student", text.name], program="distill_tokenize", **home), "9 bytes, 1 text")
    job.check(hub.leaks == [], f"the token was sent to the store of large files: {hub.leaks}")
print("names of the hub train as folders do, once a host")
