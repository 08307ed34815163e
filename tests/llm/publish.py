"""distill_llm publishes on the hub: whole or not at all, whatever happens on the way, so that huggingface_hub reads the same bytes."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import job
from hub_commits import HubWithCommits, User
from hub_server import Blob, Fault
from job import check

os.environ["HF_HUB_DISABLE_XET"] = "1"  # the server speaks LFS
NAME = "org/student"
PUBLISHED = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


class Case:
    """A server and a model folder of a test's own."""

    def __init__(self, **options):
        self.folder = job.workspace()
        self.model = job.make_model(f"{self.folder}/student", seed=1)
        self.hub = HubWithCommits(**options)
        self.environment = self.hub.environment(f"{self.folder}/hf")

    def local(self, folder=None):
        return {path.name: path.read_bytes() for path in Path(folder or self.model).iterdir() if path.name in [*PUBLISHED, "README.md"]}

    def command(self, *more, folder=None):
        return ["--publish", folder or self.model, "--hub_location", NAME, *more]

    def publish(self, *more, folder=None, **environment):
        done = subprocess.run([f"{job.BIN}/distill_llm", *self.command(*more, folder=folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=180, env=job.environment(**{**self.environment, **environment}))
        return done.returncode, done.stdout

    def must_publish(self, *more, **keywords):
        code, output = self.publish(*more, **keywords)
        check(code == 0, output)
        return output

    def must_fail(self, *parts, more=(), **environment):
        code, output = self.publish(*more, **environment)
        check(code != 0, output)
        for part in parts:
            check(part in output, f"no '{part}' in:\n{output}")
        check(self.hub.commits(NAME) in ([], ["initial commit"]), "nothing is published after an error")
        return output

    def sent(self, log):
        return [line for line in log if line.startswith("PUT ")]


def whole_and_once():
    case = Case()
    with case.hub as hub:
        case.must_publish("--hub_private_repo", "true")
        check(hub.files(NAME) == case.local(), "the files are those of the folder")
        check(hub.repositories["model", NAME].is_private, "the repository is private")
        check(hub.commits(NAME) == ["initial commit", "Publish the model"], "it is one commit")
        check(not hub.leaks, f"the token went to the store: {hub.leaks}")
        check(len(case.sent(hub.take_log())) == 1, "only model.safetensors goes by LFS")

        output = case.must_publish()
        check("has all of it already" in output, output)
        check(len(hub.commits(NAME)) == 2, "no empty commit")
        check(not case.sent(hub.take_log()), "nothing is sent again")

        job.write_safetensors(f"{case.model}/model.safetensors", {"other": ([4], [1.0] * 4)})
        Path(case.model, "optimizer.safetensors").write_bytes(b"of a checkpoint")
        Path(case.model, "hidden_projections.safetensors").write_bytes(b"of its training")
        Path(case.model, "notes.txt").write_text("mine")
        case.must_publish()
        check(hub.files(NAME) == case.local() and len(hub.commits(NAME)) == 3, "what changed is published, and only the model")


def parts_and_branches():
    case = Case(part_bytes=50_000)
    with case.hub as hub:
        case.must_publish("--hub_revision", "runs/7")
        check(hub.files(NAME, "runs/7") == case.local(), "sent in parts, in a branch that was not there")
        check(hub.files(NAME) == {}, "the main branch is as it was")
        parts = len(case.sent(hub.take_log()))
        size = os.path.getsize(f"{case.model}/model.safetensors")
        check(parts == -(-size // 50_000) > 2, f"{parts} parts of {size} bytes")
        check(not hub.leaks, f"the token went to the store: {hub.leaks}")


def read_by_huggingface_hub():
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download
    case = Case()
    with case.hub as hub:
        case.must_publish()
        where = {"endpoint": hub.url, "token": hub.token}
        folder = snapshot_download(NAME, cache_dir=f"{case.folder}/cache", **where)
        check(case.local(folder) == case.local(), "snapshot_download gives the same bytes")
        one = hf_hub_download(NAME, "config.json", cache_dir=f"{case.folder}/other", **where)
        check(Path(one).read_bytes() == case.local()["config.json"], "hf_hub_download does, too")
        # The server takes from it what it takes from us, so that both speak the same interface.
        HfApi(**where).upload_folder(repo_id=NAME, folder_path=case.model)
        check(len(hub.commits(NAME)) == 2, "huggingface_hub finds nothing to change in what we published")
        HfApi(**where).create_repo("org/theirs")
        HfApi(**where).upload_folder(repo_id="org/theirs", folder_path=case.model)
        check(hub.files("org/theirs") == hub.files(NAME), "and publishes the same")
        HfApi(**where).delete_file("model.safetensors", "org/theirs")
        check(sorted(hub.files("org/theirs")) == sorted(set(PUBLISHED) - {"model.safetensors"}), "it removes files by the same lines as we do")


def disturbed():
    for fault in ("status 503", "status 500", "taken 500", "taken 503"):
        case = Case()
        with case.hub as hub:
            lines = ["/commit/"] if fault.startswith("taken") else ["/create", "/preupload/", "/batch", "PUT /put/", "/verify", "/commit/"]
            hub.faults = [Fault(line, fault, 2 if line != "/commit/" else 1) for line in lines]
            case.must_publish()
            check(hub.files(NAME) == case.local(), f"{fault}: the files are there")
            check(hub.commits(NAME) == ["initial commit", "Publish the model"], f"{fault}: {hub.commits(NAME)}")
    for line, fault in (("/complete/", "taken 500"), ("PUT /part/", "status 503"), ("PUT /part/", "status 403")):
        case = Case(part_bytes=50_000)
        with case.hub as hub:
            hub.faults = [Fault(line, fault)]
            case.must_publish()
            check(hub.files(NAME) == case.local() and len(hub.commits(NAME)) == 2, f"{line} {fault}: it is published")
    case = Case()
    with case.hub as hub:
        hub.faults = [Fault("/commit/", "race", 2)]
        case.must_publish()
        files = hub.files(NAME)
        check({name: files[name] for name in case.local()} == case.local(), "published after the others")
        check(hub.commits(NAME) == ["initial commit", "theirs", "theirs", "Publish the model"], "theirs stay")
        check(sum(name.startswith("theirs") for name in files) == 2, "also their files")
        check(len(case.sent(hub.log)) == 1, "nothing is sent twice")


def killed():
    case = Case()
    with case.hub as hub:
        hub.faults = [Fault("/commit/", "hold")]
        publisher = subprocess.Popen([f"{job.BIN}/distill_llm", *case.command()], env={**os.environ, **case.environment},
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check(hub.held.wait(60), "the commit never came")
        publisher.send_signal(signal.SIGKILL)
        publisher.wait()
        hub.repositories["model", NAME].branches["seen"] = hub.repositories["model", NAME].branches["main"]
        check(hub.files(NAME, "seen") == {} and len(hub.objects) == 1, "nothing is to be seen before the commit")
        check(len(case.sent(hub.take_log())) == 1, "the weights were sent")
        # The one that was killed has sent its commit: whether the hub still takes it or not, there is one.
        case.must_publish()
        hub.released.set()
        time.sleep(0.3)
        check(hub.files(NAME) == case.local(), "published by the next one")
        check(not case.sent(hub.take_log()), "what was sent is not sent again")
        check(hub.commits(NAME) == ["initial commit", "Publish the model"], hub.commits(NAME))


def refused():
    case = Case()
    with case.hub as hub:
        hub.users.update({"hf_read": User("ada", {"org": "write"}, role="read"), "hf_guest": User("bob"), "hf_reader": User("eve", {"org": "read"}),
                          "hf_fine": User("ada", role="fineGrained", scopes=[{"entity": {"type": "org", "name": "elsewhere"},
                                                                              "permissions": ["repo.write"]}])})
        case.must_fail("does not know the token", "/settings/tokens", HF_TOKEN="hf_wrong")
        case.must_fail("there is no token: set HF_TOKEN", HF_TOKEN="", HF_TOKEN_PATH="/nowhere")
        case.must_fail("may only read", HF_TOKEN="hf_read")
        case.must_fail("user bob, who is no member of org", HF_TOKEN="hf_guest")
        case.must_fail("eve", "may only read in org", HF_TOKEN="hf_reader")
        case.must_fail("has no permission to write to repositories of org", HF_TOKEN="hf_fine")
        case.must_fail("HF_HUB_OFFLINE is set", HF_HUB_OFFLINE="1")
        case.must_fail("give ORG/NAME", more=("--hub_location", "student"))
        check(not [line for line in hub.take_log() if line.startswith("POST")], "all of it was told before anything was made")
        hub.faults = [Fault("/batch", "message 403 You have exceeded your private storage quota")]
        case.must_fail("model.safetensors", "exceeded your private storage quota")
        hub.faults = [Fault("PUT /put/", "status 413", 2)]
        case.must_fail("413")
        hub.faults = [Fault("/commit/", "status 503", 100)]
        case.must_fail("given up after 2 attempts", more=("--store_attempts", "2"))
        hub.faults = []
        check(hub.files(NAME) == {}, "nothing of it is to be seen")
        code, output = case.publish(folder=case.folder)
        check(code == 2 and "holds no model" in output, output)


def answers_of_no_form():
    case = Case()
    upload = {"href": "http://127.0.0.1:1/x?signature=secret", "header": {"chunk_size": str((1 << 63) - 1), "1": "y?signature=secret"}}
    batches = {
        '{"objects": [{"error": {"message": null, "code": "507"}}]}': "the hub does not take it: it does not say why",
        '{"objects": [{"error": {"message": "no space", "code": 507}}]}': "the hub does not take it: no space (507)",
        '{"objects": [{"error": "no space"}]}': "the hub does not take it",
        json.dumps({"objects": [{"actions": {"upload": upload}}, {}]}): "it is no JSON with one object",
        json.dumps({"objects": {"actions": {"upload": upload}}}): "it is no JSON with one object",
        json.dumps([{"actions": {"upload": upload}}]): "it is no JSON with one object",
        json.dumps({"objects": [{"actions": {"upload": {"href": 5}}}]}): "no href",
        json.dumps({"objects": [{"actions": {"upload": "here"}}]}): "no href",
        json.dumps({"objects": [{"actions": {"upload": {**upload, "header": {**upload["header"], "2": "z"}}}}]}): "2 parts of",
    }
    with case.hub as hub:
        faults = [("/batch", answer, said) for answer, said in batches.items()]
        faults += [("/preupload/", answer, "the hub does not say how to send") for answer in ('{"files": 5}', '{"files": [5]}', '{"files": {"a": []}}')]
        faults += [("/commit/", "[]", "the hub's answer is no JSON object"), ("/preupload/", "no JSON", "the hub's answer is no JSON object")]
        for match, answer, said in faults:
            hub.faults = [Fault(match, f"answer {answer}")]
            output = case.must_fail(said)
            check("json.exception" not in output and "secret" not in output, output)


def ignored():
    case = Case()
    with case.hub as hub:
        hub.ignored = {"model.safetensors"}
        case.must_fail("the .gitignore of the repository leaves out model.safetensors", "remove the line")
        check(not case.sent(hub.take_log()), "nothing is sent")
        config = job.config(case.folder, alpha=0, student_model=case.model, dataset_name=job.make_chat(f"{case.folder}/chat.jsonl", 4),
                            cache_dir="none", output_dir=f"{case.folder}/out", hub_location=NAME, save_location="hub", save_strategy="no")
        code, output = job.run(["--config_file", config], **case.environment)
        check(code == 2 and "leaves out model.safetensors" in output, output)
        check(set(PUBLISHED) <= set(case.local(f"{case.folder}/out")), "what the hub would leave out is not removed here")
        hub.ignored = set()
        case.must_publish(folder=f"{case.folder}/out")
        hub.ignored = {"model.safetensors"}
        case.must_publish(folder=f"{case.folder}/out")
        check(len(hub.commits(NAME)) == 2, "a file that is there as it is may be ignored")


def outdated():
    case = Case()
    whole = case.local()
    index = {"metadata": {}, "weight_map": {"embedding": "model-00001-of-00002.safetensors", "head": "model-00002-of-00002.safetensors"}}
    parts = {"model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two",
             "model.safetensors.index.json": json.dumps(index).encode()}
    others = {"model.fp16.safetensors": b"a person's", "onnx/model.safetensors": b"another reader's", "model_head.bin": b"extra"}

    def move(there):
        for name in [*parts, "model.safetensors", "pytorch_model.bin"]:
            Path(case.model, name).unlink(missing_ok=True)
        for name, contents in there.items():
            Path(case.model, name).write_bytes(contents)

    with case.hub as hub:
        case.must_publish()
        hub.commit(hub.repositories["model", NAME], "main", {name: Blob(contents) for name, contents in others.items()}, "by hand")
        weights = {"model.safetensors": whole["model.safetensors"]}
        rest = {name: contents for name, contents in whole.items() if name not in weights}
        for there in (parts, weights, {"pytorch_model.bin": b"pickled"}, weights):
            move(there)
            before = len(hub.commits(NAME))
            output = case.must_publish()
            check(hub.files(NAME) == {**rest, **there, **others}, f"{list(hub.files(NAME))} after {list(there)}")
            check(len(hub.commits(NAME)) == before + 1 and "removed from org/student" in output, output)
        hub.commit(hub.repositories["model", NAME], "main", {"pytorch_model.bin": Blob(b"old")}, "by hand")
        case.must_publish()
        check("pytorch_model.bin" not in hub.files(NAME), "also where nothing else is to be done")
        check("has all of it already" in case.must_publish(), "once")


def renamed():
    case = Case()
    with case.hub as hub:
        case.must_publish()
        repository = hub.repositories["model", "new/name"] = hub.repositories.pop(("model", NAME))
        repository.name = "new/name"
        hub.renamed = {NAME: "new/name"}
        job.write_safetensors(f"{case.model}/model.safetensors", {"other": ([4], [1.0] * 4)})
        code, output = case.publish()
        check(code == 2 and "no member of new" in output, output)
        hub.users["hf_test"].orgs["new"] = "write"
        hub.take_log()
        for revision in ("main", "other"):
            output = case.must_publish("--hub_revision", revision)
            check("org/student is called new/name on the hub now" in output and f"{hub.url}/new/name, commit" in output, output)
            check(hub.files("new/name", revision) == case.local(), "published by the new name")
            job.write_safetensors(f"{case.model}/model.safetensors", {"other": ([4], [2.0] * 4)})
        check(("model", NAME) not in hub.repositories and not any("/create" in line for line in hub.take_log()), "none of the old name is made")

        config = job.config(case.folder, alpha=0, student_model=case.model, dataset_name="none.jsonl", output_dir=f"{case.folder}/out",
                            hub_location=NAME)
        hub.users["hf_test"].orgs["new"] = "read"
        code, output = job.run(["--config_file", config], **case.environment)
        check(code == 2 and "may only read in new" in output, output)


def pages():
    case = Case()
    with case.hub as hub:
        ours = "---\ntags: [distillation]\n---\n\n<!-- made by libdistill; -->\nversion {}\n"
        page = Path(case.model, "README.md")
        page.write_text(ours.format(1))
        case.must_publish()
        page.write_text(ours.format(2))
        case.must_publish()
        check(hub.files(NAME)["README.md"] == ours.format(2).encode(), "a page of ours goes over one of ours")
        repository = hub.repositories["model", NAME]
        repository.add({**repository.find("main").files, "README.md": b"a person's"})
        hub.summaries[repository.branches["main"]] = "by hand"
        output = case.must_publish()
        check(hub.files(NAME)["README.md"] == b"a person's" and "stays as it is" in output, output)
        page.write_text("# my own words\n")
        case.must_publish()
        check(hub.files(NAME)["README.md"] == b"# my own words\n", "but what a person wrote in the folder goes as it is")


def trained():
    from huggingface_hub import ModelCard, snapshot_download
    case = Case()
    folder = case.folder
    teacher = job.make_model(f"{folder}/teacher", seed=2)
    Path(case.model, "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    data = job.make_chat(f"{folder}/chat.jsonl", 12)

    def train(name, ranks=2, teacher=teacher, **options):
        options = {"student_model": case.model, **options}
        config = job.config(folder, teacher_model=teacher, dataset_name=data, cache_dir="none", output_dir=f"{folder}/{name}",
                            hub_location=NAME, **options)
        return job.run(["--config_file", config], ranks=ranks, **case.environment)

    with case.hub as hub:
        code, output = train("both", eval_dataset_name=data, save_steps=3)
        check(code == 0, output)
        check(hub.files(NAME) == case.local(f"{folder}/both"), "both: the hub has what output_dir has")
        check("README.md" in hub.files(NAME), "with a page")
        card = ModelCard.load(f"{folder}/both/README.md")
        check(card.data.license == "apache-2.0" and "distillation" in card.data.tags and card.data.library_name == "transformers",
              card.data.to_dict())
        for words in ("teacher", "chat.jsonl", "| learning_rate | 0.001 |", "| steps | 6 |", "last step", "eval_", "2 ranks on CPUs"):
            check(words in card.text, f"no '{words}' in:\n{card.text}")
        check(folder not in card.content, "no paths of this machine are published")

        # A run that has no step left knows less than the page that it wrote when it ended.
        page, before = hub.files(NAME)["README.md"], hub.commits(NAME)
        code, output = train("both", eval_dataset_name=data, save_steps=3, resume_from_checkpoint="latest")
        check(code == 0, output)
        check(Path(folder, "both", "README.md").read_bytes() == page == hub.files(NAME)["README.md"], "the page is as it was")
        check(hub.commits(NAME) == before, hub.commits(NAME))

        Path(folder, "hub").mkdir()
        Path(folder, "hub", "LICENSE").write_text("of a person")
        code, output = train("hub", save_location="hub", save_steps=3, seed=7)
        check(code == 0, output)
        left = {path.name for path in Path(folder, "hub").iterdir() if not path.name.startswith(".")}
        check({"checkpoint-3", "checkpoint-6", "metrics.jsonl", "LICENSE"} <= left and not left & {*PUBLISHED, "README.md"}, left)
        check(len(hub.commits(NAME)) == 3, "published over the one before")
        last = snapshot_download(NAME, cache_dir=f"{folder}/cache", endpoint=hub.url, token=hub.token)
        newest = Path(folder, "hub", "checkpoint-6")
        check(Path(last, "model.safetensors").read_bytes() == Path(newest, "model.safetensors").read_bytes(), "it is the last step's")

        hub.add("model", "org/teacher", {path.name: path.read_bytes() for path in Path(teacher).iterdir()})
        code, output = train("named", teacher="org/teacher", seed=6)
        check(code == 0, output)
        card = ModelCard.load(f"{folder}/named/README.md")
        shape = {path.name: path.read_bytes() for path in Path(case.model).iterdir() if path.name != "model.safetensors"}
        hub.add("model", "org/shape", shape)
        code, output = train("shaped", student_model="org/shape", seed=9)
        check(code == 0, output)
        shaped = ModelCard.load(f"{folder}/shaped/README.md")
        check(shaped.data.base_model is None and "random weights, in the shape of [org/shape]" in shaped.text, shaped.content)
        check(card.data.base_model == ["org/teacher"] and f"{folder}/hf" not in card.content, card.content)

        hub.faults = [Fault("/commit/", "status 403", 1)]
        code, output = train("kept", save_location="hub", seed=8)
        check(code == 2 and output.count("error:") == 1, output)
        check(f"distill_llm --publish {folder}/kept --hub_location {NAME}" in output, output)
        check({*PUBLISHED, "README.md"} <= set(case.local(f"{folder}/kept")), "what could not be published is kept")
        case.must_publish(folder=f"{folder}/kept")
        check(case.local(f"{folder}/kept").items() <= hub.files(NAME).items(), "and published by the command that the error named")

        case.environment["HF_TOKEN"] = "hf_wrong"
        code, output = train("early", push_to_hub=True)
        check(code == 2 and "does not know the token" in output and "step" not in output, output)
        check(not os.path.exists(f"{folder}/early"), "a run that could not publish does not begin")


def waited_for():
    case = Case()
    with case.hub as hub:
        hub.faults = [Fault("/commit/", "hold")]
        threading.Timer(10, hub.released.set).start()
        config = job.config(case.folder, alpha=0, student_model=case.model, dataset_name=job.make_chat(f"{case.folder}/chat.jsonl", 8),
                            cache_dir="none", output_dir=f"{case.folder}/out", hub_location=NAME, comm_timeout_seconds=3, phase_timeout_seconds=3)
        began = time.monotonic()
        code, output = job.run(["--config_file", config], ranks=2, **case.environment)
        check(code == 0 and time.monotonic() - began > 10, f"the others wait for a publication, however long it takes:\n{output}")
        check(hub.files(NAME) == case.local(f"{case.folder}/out"), "which is whole")


def from_s3():
    with open(os.path.join(os.path.dirname(job.BIN), "s3_server.txt"), encoding="utf-8") as file:
        about = dict(line.split(" ", 1) for line in file.read().splitlines())
    if "server" not in about:
        print(about)
        sys.exit(77)
    case = Case(part_bytes=50_000)
    bucket = f"publish-{os.getpid()}"
    case.environment.update(AWS_ACCESS_KEY_ID="DISTILLTEST", AWS_SECRET_ACCESS_KEY="distill-test-secret", AWS_REGION="us-east-1",
                            AWS_ENDPOINT_URL=about["server"])
    subprocess.run(["curl", "-fsS", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "DISTILLTEST:distill-test-secret",
                    "-H", f"x-amz-content-sha256: {hashlib.sha256(b'').hexdigest()}", f"{about['server']}/{bucket}"], check=True)
    code, output = job.run(["copy", case.model, f"s3://{bucket}/student"], program="distill_data", **case.environment)
    check(code == 0, output)
    with case.hub as hub:
        case.must_publish(folder=f"s3://{bucket}/student")
        check(hub.files(NAME) == case.local(), "a model in S3 is published without a copy here")
        check(len(case.sent(hub.take_log())) > 2, "in parts, which are ranges of the object")
        code, output = case.publish(folder=f"s3://{bucket}/none")
        check(code == 2 and f"s3://{bucket}/none" in output, output)

        config = job.config(case.folder, alpha=0, student_model=case.model, dataset_name=job.make_chat(f"{case.folder}/chat.jsonl", 8),
                            cache_dir="none", output_dir=f"s3://{bucket}/out", hub_location=NAME, save_location="hub", save_steps=2)
        code, output = job.run(["--config_file", config], ranks=2, **case.environment)
        check(code == 0, output)
        code, output = job.run(["copy", f"s3://{bucket}/out", f"{case.folder}/back"], program="distill_data", **case.environment)
        check(code == 0, output)
        left = {path.name for path in Path(case.folder, "back").iterdir()}
        check({"checkpoint-4", "metrics.jsonl"} <= left and not left & {*PUBLISHED, "README.md"}, left)
        newest = Path(case.folder, "back", "checkpoint-4", "model.safetensors")
        check(hub.files(NAME)["model.safetensors"] == newest.read_bytes(), "a run whose output is in S3 publishes its last step")


if __name__ == "__main__":
    named = sys.argv[1:] or ["whole_and_once", "parts_and_branches", "read_by_huggingface_hub", "disturbed", "killed", "refused", "answers_of_no_form", "ignored", "outdated",
                             "renamed", "pages", "trained", "waited_for"]
    for name in named:
        began = time.monotonic()
        globals()[name]()
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
