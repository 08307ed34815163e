"""distill_data fetch against a hub on loopback, with huggingface_hub as the oracle: the same files of the cache, each finds what the
other fetched, and what goes wrong on the way ends well or with a message that says what to do.

Run by the Python of the oracles; DISTILL_BUILD_DIR names the build.
"""
import fcntl
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from hub_server import Fault, HubServer  # noqa: E402

DATA = f"{os.environ['DISTILL_BUILD_DIR']}/bin/distill_data"
MODEL = {"config.json": b'{"model_type": "qwen2"}', "tokenizer.json": b"{}", "README.md": b"# a card", "model.safetensors": os.urandom(3 << 20),
         "pytorch_model.bin": b"the same again", "onnx/model.onnx": b"and again", "additional_chat_templates/tool use.jinja": b"{{ messages }}",
         ".gitattributes": b"*.bin filter=lfs"}
WANTED = ["README.md", "additional_chat_templates/tool use.jinja", "config.json", "model.safetensors", "tokenizer.json"]
# A second one, of whom nothing was set up before.
ORACLE = """
import json, sys, huggingface_hub
try:
    print(huggingface_hub.snapshot_download(sys.argv[1], repo_type=sys.argv[2], allow_patterns=json.loads(sys.argv[3])))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


class World:
    """A hub with one model, and a home for each client."""

    def __init__(self):
        self.hub = HubServer()
        self.home = Path(tempfile.mkdtemp(prefix="distill-hub-"))
        self.commit = self.hub.add("model", "org/name", MODEL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hub.close()
        shutil.rmtree(self.home, ignore_errors=True)
        assert self.hub.leaks == [], f"the token was sent to the store of large files: {self.hub.leaks}"

    def environment(self, home="ours", **more):
        return {**os.environ, "OMP_NUM_THREADS": "1", **self.hub.environment(self.home / home), **more}

    def start(self, *words, home="ours", **more):
        return subprocess.Popen([DATA, "fetch", *words], env=self.environment(home, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def fetch(self, *words, home="ours", code=0, **more):
        """The folder that is printed; or the error."""
        process = self.start(*words, home=home, **more)
        out, errors = process.communicate(timeout=100)
        assert process.returncode == code, f"fetch {words}: code {process.returncode}\n{out}\n{errors}"
        return out.strip() if code == 0 else errors

    def oracle(self, name="org/name", kind="model", patterns=WANTED, home="theirs", code=0, **more):
        done = subprocess.run([sys.executable, "-c", ORACLE, name, kind, json.dumps(patterns)], env=self.environment(home, **more),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
        assert (done.returncode == 0) == (code == 0), done.stderr
        return done.stdout.strip() if code == 0 else done.stderr.splitlines()[-1]

    def bodies(self):
        """What was asked for of files since the last call, but for questions about them."""
        return [line for line in self.hub.take_log() if line.startswith("GET ") and "/api/" not in line]


class TlsFront:
    """TLS on a port of loopback, in front of a server that speaks HTTP."""

    def __init__(self, server_port, key, certificate):
        self.server_port = server_port
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.join, args=(client,), daemon=True).start()

    def join(self, client):
        try:
            client = self.context.wrap_socket(client, server_side=True)
        except OSError:  # who does not trust it
            return
        server = socket.create_connection(("127.0.0.1", self.server_port))
        threading.Thread(target=self.carry, args=(server, client), daemon=True).start()
        self.carry(client, server)

    @staticmethod
    def carry(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def tree(folder):
    """Every path below it: where a link points, what a file holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = path.read_bytes() if path.is_file() else "a folder"
    return found


def has(text, *parts):
    for part in parts:
        assert part in text, f"no {part!r} in:\n{text}"


def the_cache_is_laid_out_as_huggingface_hub_lays_it_out():
    with World() as world:
        ours, theirs = world.fetch("org/name"), world.oracle()
        assert ours == f"{world.home}/ours/hub/models--org--name/snapshots/{world.commit}", ours
        assert ours.replace("/ours/", "/theirs/") == theirs, (ours, theirs)
        made, expected = tree(world.home / "ours"), tree(world.home / "theirs")
        assert made == expected, set(made.items()) ^ set(expected.items())
        assert made["hub/models--org--name/refs/main"] == world.commit.encode()
        assert made[f"hub/models--org--name/snapshots/{world.commit}/model.safetensors"].startswith("-> ../../blobs/")


def each_finds_what_the_other_fetched():
    with World() as world:
        world.fetch("org/name", home="one")
        world.oracle(home="two")
        assert len(world.bodies()) > 4
        world.oracle(home="one")
        world.fetch("org/name", home="two")
        assert world.bodies() == [], "files were asked for that are in the cache"
        world.oracle(home="one", HF_HUB_OFFLINE="1")
        assert world.fetch("org/name", home="two", HF_HUB_OFFLINE="1").endswith(world.commit)
        assert world.hub.take_log() == [], "HF_HUB_OFFLINE is set, and something was asked for"


def files_that_transformers_fetched_one_by_one_are_found():
    with World() as world:
        script = "import huggingface_hub, sys; [huggingface_hub.hf_hub_download('org/name', name) for name in sys.argv[1:]]"
        subprocess.run([sys.executable, "-c", script, *WANTED], env=world.environment(), check=True, stderr=subprocess.DEVNULL)
        world.bodies()
        world.fetch("org/name", HF_HUB_OFFLINE="1")  # there is no listing
        world.fetch("org/name")
        assert world.bodies() == []


def revisions_are_branches_tags_and_commits():
    with World() as world:
        branch = world.hub.add("model", "org/name", {**MODEL, "config.json": b'{"model_type": "llama"}'}, branch="refs/pr/1")
        first = world.fetch("org/name")
        world.bodies()
        for text in (["org/name@refs/pr/1"], ["org/name", "--revision", "refs/pr/1"], ["hf://org/name@" + branch]):
            assert world.fetch(*text).endswith(branch)
        bodies = world.bodies()
        assert len(bodies) == 1 and "config.json" in bodies[0], bodies  # the other files are those of main
        assert (world.home / "ours/hub/models--org--name/refs/refs/pr/1").read_text() == branch
        assert Path(first, "config.json").read_bytes() != Path(first).parent.joinpath(branch, "config.json").read_bytes()
        # main moves on: the next look-up finds it, and offline what was found last.
        moved = world.hub.add("model", "org/name", MODEL | {"config.json": b"{}"})
        assert world.fetch("org/name", HF_HUB_OFFLINE="1") == first
        assert world.fetch("org/name").endswith(moved)


def a_repository_that_got_another_name_is_found_by_the_old_one():
    with World() as world:
        world.hub.renamed = {"before/name": "org/name"}
        folder = world.fetch("before/name")
        assert Path(folder, "model.safetensors").read_bytes() == MODEL["model.safetensors"]
        assert folder.replace("/ours/", "/theirs/") == world.oracle("before/name")


def only_what_is_read_is_fetched():
    with World() as world:
        world.fetch("org/name")
        asked = " ".join(world.bodies())
        for other in ("pytorch_model", "onnx", "gitattributes"):
            assert other not in asked, asked
        parts = {f"model-0000{i}-of-00002.safetensors": b"%d" % i for i in (1, 2)}
        world.hub.add("model", "org/parts", {"config.json": b"{}", "model.safetensors.index.json": b"{}", **parts, "other.safetensors": b"3"})
        names = sorted(os.listdir(world.fetch("org/parts")))
        assert names == ["config.json", *sorted(parts), "model.safetensors.index.json"], names
        world.hub.add("model", "org/old", {"config.json": b"{}", "pytorch_model.bin": b"1", "tf_model.h5": b"2"})
        assert sorted(os.listdir(world.fetch("org/old"))) == ["config.json", "pytorch_model.bin"]
        has(world.fetch("org/old@main", "--repo_type", "dataset", code=2), "there is no such repository")
        world.hub.add("model", "org/else", {"README.md": b"no model"})
        has(world.fetch("org/else", code=2), "org/else: it has no config.json", "README.md")


def a_damaged_file_of_the_cache_is_fetched_again():
    with World() as world:
        rows = b'{"text": "a"}\n' * 50
        world.hub.add("dataset", "org/lines", {"train.jsonl": rows})
        folder = Path(world.fetch("org/lines", "--repo_type", "dataset"))
        blob = (folder / "train.jsonl").resolve()
        os.truncate(blob, len(rows) * 2 // 5)
        error = world.fetch("org/lines", "--repo_type", "dataset", code=2, HF_HUB_OFFLINE="1")
        has(error, f"{blob} has {len(rows) * 2 // 5} bytes, and not the {len(rows)} of train.jsonl", "remove it", "--repo_type dataset")
        process = world.start("org/lines", "--repo_type", "dataset")
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        has(errors, f"{blob} has ", "it is fetched again")
        assert (folder / "train.jsonl").read_bytes() == rows
        # Also a file in the place of the link, as on file systems without links.
        (folder / "train.jsonl").unlink()
        (folder / "train.jsonl").write_bytes(rows[:-1])
        world.bodies()
        world.fetch("org/lines", "--repo_type", "dataset", HF_HUB_OFFLINE="1")  # the blob is there
        assert (folder / "train.jsonl").read_bytes() == rows and world.bodies() == []


def a_model_without_its_card_is_whole():
    with World() as world:
        folder = Path(world.fetch("org/name"))
        for card in (folder / "README.md", (folder / "README.md").resolve()):
            card.unlink()
        assert world.fetch("org/name", HF_HUB_OFFLINE="1") == str(folder)
        assert world.fetch("org/name", HF_ENDPOINT="http://127.0.0.1:9") == str(folder)
        assert not (folder / "README.md").exists()
        world.fetch("org/name")
        assert (folder / "README.md").read_bytes() == MODEL["README.md"]
        (folder / "config.json").resolve().unlink()
        has(world.fetch("org/name", code=2, HF_HUB_OFFLINE="1"), "config.json and 0 other files are not in the cache")


def copies_that_others_fetched_are_passed_over():
    with World() as world:
        rows = {"train.jsonl": b'{"text": "a"}\n', "train.csv": b"text\na\n"}
        made = "import pyarrow, pyarrow.parquet, sys; pyarrow.parquet.write_table(pyarrow.table({'text': ['a', 'b', 'c']}), sys.argv[1])"
        subprocess.run([sys.executable, "-c", made, f"{world.home}/rows.parquet"], check=True)
        rows["train.parquet"] = Path(f"{world.home}/rows.parquet").read_bytes()
        world.hub.add("dataset", "org/copies", rows)
        world.oracle("org/copies", "dataset", patterns=["*"], home="ours")
        counted = subprocess.run([DATA, "count", "org/copies", "--split", "train"], env=world.environment(), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        has(counted.stdout, "3 rows in 1 files")


def data_sets_are_their_parquet_files_or_their_rows():
    with World() as world:
        rows = {f"data/train-0000{i}-of-00002.parquet": b"%d" % i for i in (0, 1)}
        commit = world.hub.add("dataset", "org/rows", {**rows, "data/test-00000-of-00001.parquet": b"3", "train.csv": b"a\n1\n"})
        folder = Path(world.fetch("org/rows", "--repo_type", "dataset", "--split", "train"))
        assert folder == world.home / "ours/hub/datasets--org--rows/snapshots" / commit
        assert sorted(os.listdir(folder / "data")) == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
        assert world.fetch("hf://datasets/org/rows", "--repo_type", "dataset") == str(folder)
        assert len(os.listdir(folder / "data")) == 3 and not (folder / "train.csv").exists()
        world.hub.add("dataset", "org/lines", {"train.jsonl": b'{"text": "a"}\n{"text": "b"}\n', "test.jsonl": b'{"text": "c"}\n', "README.md": b"#"})
        counted = subprocess.run([DATA, "count", "org/lines", "--split", "train"], env=world.environment(), check=True, stdout=subprocess.PIPE, text=True)
        has(counted.stdout, "2 rows in 1 files")
        shown = subprocess.run([DATA, "show", "org/lines@main", "--split", "test"], env=world.environment(), check=True, stdout=subprocess.PIPE, text=True)
        has(shown.stdout, '{"text":"c"}')
        world.hub.add("dataset", "org/many", {"en/train.jsonl": b"{}", "de/train.jsonl": b'{"text": "eins"}'})
        has(world.fetch("org/many", "--repo_type", "dataset", code=2), "rows in the folders de, en")
        for name in ("hf://org/many/de", "hf://datasets/org/many@main/de"):
            shown = subprocess.run([DATA, "show", name, "--split", "train"], env=world.environment(), check=True, stdout=subprocess.PIPE, text=True)
            has(shown.stdout, '{"text":"eins"}')
        has(world.fetch("org/rows", "--repo_type", "dataset", "--split", "dev", code=2), "no file of rows in it is called dev*.parquet", "data/test-")


def the_card_says_which_files_are_a_config():
    card = b"""---
license: mit
configs:
- config_name: chats
  default: true
  data_files:
  - split: train
    path: chats/part-*.jsonl
  - split: test
    path: chats/held.jsonl
- config_name: texts
  data_files: texts.jsonl
---
# Rows
"""

    def said(world, command, name, *words, code=0, **more):
        done = subprocess.run([DATA, command, name, *words], env=world.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == code, done.stdout
        return done.stdout

    files = {"README.md": card, "train.jsonl": b"never", "texts.jsonl": b'{"text": "a text"}\n', "chats/held.jsonl": b'{"text": "held"}\n',
             "chats/part-0.jsonl": b'{"text": "one"}\n', "chats/part-1.jsonl": b'{"text": "two"}\n'}
    with World() as world:
        world.hub.add("dataset", "org/rows", files)
        has(said(world, "show", "hf://org/rows/texts", "--split", "train"), '{"text":"a text"}')
        asked = " ".join(world.bodies())
        assert "texts.jsonl" in asked and "README.md" in asked and "train.jsonl" not in asked and "chats" not in asked, asked
        has(said(world, "show", "org/rows", "--split", "test"), '{"text":"held"}')
        has(said(world, "count", "org/rows", "--split", "part"), "2 rows in 2 files")  # names, where the card has no such split
        has(said(world, "show", "org/rows", "--split", "train", code=2), "org/rows: its card says that the split 'train' of the config chats are the files "
            "chats/part-0.jsonl, chats/part-1.jsonl, which are not those of one folder whose names begin with the split")
        has(said(world, "show", "org/rows", "--split", "dev", code=2), "by its card the config chats has the splits train, test")
        has(said(world, "show", "hf://org/rows/none", "--split", "train", code=2), "it has the configs chats, texts: name one of them")
        world.bodies()
        has(said(world, "show", "hf://org/rows/texts", "--split", "train", HF_HUB_OFFLINE="1"), '{"text":"a text"}')
        assert world.bodies() == []
        # Without the card, or with one that makes no sense, names count as ever.
        world.hub.faults = [Fault("README.md", "status 404", 100)]
        world.hub.add("dataset", "org/unseen", files)
        has(said(world, "count", "hf://org/unseen/chats", "--split", "part"), "files are taken by their names", "2 rows in 2 files")
        world.hub.faults = []
        world.hub.add("dataset", "org/broken", {**files, "README.md": b"---\nconfigs: [\n---\n"})
        has(said(world, "count", "hf://org/broken/chats", "--split", "part"), "its card is not valid YAML", "files are taken by their names", "2 rows in 2 files")


def a_listing_of_several_pages_is_read_to_its_end():
    with World() as world:
        world.hub.add("dataset", "org/big", {f"data/train-{i:05}.parquet": b"%d" % i for i in range(120)})
        folder = world.fetch("org/big", "--repo_type", "dataset")
        assert len(os.listdir(f"{folder}/data")) == 120


def what_fails_now_and_then_is_tried_again_and_resumed():
    with World() as world:
        world.hub.faults = [Fault("GET /api/", "status 503"), Fault("GET /org/name/resolve/", "status 502"), Fault("signature=1", "short"),
                            Fault("signature=1 bytes=", "short")]
        folder = world.fetch("org/name")
        assert Path(folder, "model.safetensors").read_bytes() == MODEL["model.safetensors"]
        # The half that came is not fetched again, nor the half of the rest.
        half = len(MODEL["model.safetensors"]) // 2
        ranges = [line.split()[-1] for line in world.hub.take_log() if "signature=1" in line]
        assert ranges[1:] == [f"bytes={half}-", f"bytes={half + half // 2}-"], ranges


def a_stall_is_cut_and_resumed():
    with World() as world:
        world.hub.faults = [Fault("signature=1", "stall")]
        start = time.monotonic()
        world.fetch("org/name", "--store_stall_seconds", "2")
        assert 2 <= time.monotonic() - start < 20
        world.hub.faults = [Fault("GET /api/models/org/name/revision", "stall", 100)]
        start = time.monotonic()
        world.fetch("org/name", "--store_stall_seconds", "1")  # out of the cache
        assert time.monotonic() - start < 20
        has(world.fetch("org/name", "--store_stall_seconds", "1", home="new", code=2), "nothing came for 1s", "given up after 3 attempts",
            "set HF_HUB_OFFLINE=1")


def a_server_without_ranges_gives_the_whole_file_again():
    with World() as world:
        world.hub.faults = [Fault("signature=1", "short"), Fault("signature=1", "no_ranges", 100)]
        folder = world.fetch("org/name")
        assert Path(folder, "model.safetensors").read_bytes() == MODEL["model.safetensors"]


def wrong_bytes_are_fetched_again_and_then_refused():
    with World() as world:
        world.hub.faults = [Fault("signature=1", "wrong"), Fault("config.json", "wrong")]
        folder = world.fetch("org/name")
        for name in ("config.json", "model.safetensors"):
            assert Path(folder, name).read_bytes() == MODEL[name]
        world.hub.faults = [Fault("signature=1", "wrong", 100)]
        error = world.fetch("org/name", home="new", code=2)
        has(error, "org/name: model.safetensors: its bytes do not have the hash", "also when they were fetched again")
        assert not list((world.home / "new").rglob("snapshots/*/model.safetensors"))
        world.hub.faults = []
        world.fetch("org/name", home="new")


def damaged_bytes_of_an_interrupted_download_are_found():
    with World() as world:
        world.fetch("org/name")
        blob = next(path for path in (world.home / "ours/hub/models--org--name/blobs").iterdir() if path.stat().st_size > 1 << 20)
        blob.rename(f"{blob}.incomplete")
        with open(f"{blob}.incomplete", "r+b") as file:
            file.truncate(1 << 20)
            file.write(b"damaged")
        assert blob.name == hashlib.sha256(Path(world.fetch("org/name"), "model.safetensors").read_bytes()).hexdigest()


def a_killed_download_resumes_where_it_was():
    with World() as world:
        large = os.urandom(8 << 20)
        world.hub.add("model", "org/large", {"config.json": b"{}", "model.safetensors": large})
        world.hub.faults = [Fault("signature=1", "stall")]
        process = world.start("org/large")
        part = world.home / f"ours/hub/models--org--large/blobs/{hashlib.sha256(large).hexdigest()}.incomplete"
        while not part.exists() or part.stat().st_size < len(large) // 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        world.hub.take_log()
        folder = world.fetch("org/large")
        ranges = [line for line in world.bodies() if "signature=1" in line]
        assert len(ranges) == 1 and ranges[0].endswith(f"bytes={len(large) // 2}-"), ranges
        assert Path(folder, "model.safetensors").read_bytes() == large and not part.exists()


def a_slow_connection_is_joined_by_others():
    with World() as world:
        large = os.urandom(72 << 20)
        world.hub.add("model", "org/large", {"config.json": b"{}", "model.safetensors": large})
        world.hub.faults = [Fault("signature=1", "slow 10000000", 100)]
        folder = world.fetch("org/large")
        assert Path(folder, "model.safetensors").read_bytes() == large
        ranges = [line.split()[-1] for line in world.bodies() if "signature=1" in line]
        assert 4 <= len(ranges) <= 6 and all("bytes=" in each for each in ranges[1:]), ranges


def processes_of_a_host_download_once():
    with World() as world:
        world.hub.faults = [Fault("signature=1", "slow 3000000")]
        processes = [world.start("org/name") for _ in range(3)]
        oracle = subprocess.Popen([sys.executable, "-c", ORACLE, "org/name", "model", '["model.safetensors"]'], env=world.environment(),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        waited = []
        for process in processes:
            out, errors = process.communicate(timeout=100)
            assert process.returncode == 0, errors
            waited.append("waits until another process has downloaded" in errors)
        assert oracle.wait(timeout=100) == 0
        assert len([line for line in world.bodies() if "signature=1" in line]) == 1
        assert sum(waited) >= 2, waited


def a_lock_of_filelock_is_one_of_ours():
    with World() as world:
        world.fetch("org/name", home="other")
        name = next(path.name for path in (world.home / "other/hub/models--org--name/blobs").iterdir() if path.stat().st_size > 1 << 20)
        locks = world.home / "ours/hub/.locks/models--org--name"
        locks.mkdir(parents=True)
        with open(locks / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as filelock takes it
            process = world.start("org/name")
            time.sleep(1.5)
            assert process.poll() is None
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        has(errors, "waits until another process has downloaded model.safetensors")


def refusals_say_what_to_do():
    with World() as world:
        world.hub.add("model", "org/gated", MODEL, is_gated=True)
        world.hub.add("model", "org/private", MODEL, is_private=True)
        has(world.fetch("org/gated", code=2, HF_TOKEN=""), "it is gated: ask for access at", "/org/gated, and set HF_TOKEN")
        has(world.fetch("org/gated", code=2, HF_TOKEN="hf_other"), "it is gated")
        has(world.fetch("org/private", code=2, HF_TOKEN=""), "there is no such repository, or it may not be seen", "set HF_TOKEN")
        has(world.fetch("org/private", code=2, HF_TOKEN="hf_other"), "check that HF_TOKEN belongs to a user who may use it")
        for name in ("org/gated", "org/private"):
            world.fetch(name)
        world.fetch("org/private", HF_TOKEN="")  # out of the cache
        has(world.fetch("org/none", code=2), "there is no such repository", world.hub.url)
        has(world.fetch("org/name@v9", code=2), "it has no revision 'v9'")
        has(world.fetch("org/name@" + "0" * 40, code=2), "it has no revision '000")
        has(world.fetch("org/name", home="new", code=2, HF_HUB_OFFLINE="1"), "org/name at main is not in the cache, and HF_HUB_OFFLINE is set",
            "distill_data fetch org/name", f"{world.home}/new/hub")
        for name in ("../name", "org/../name", "org/name@../../x", "a/b/c", "org"):
            has(world.fetch(name, code=2), f"error: {name}: ")


def no_network_says_what_to_do():
    with World() as world:
        world.fetch("org/name")
        assert world.fetch("org/name", HF_ENDPOINT="http://127.0.0.1:9").endswith(world.commit)
        start = time.monotonic()
        has(world.fetch("org/name", home="new", code=2, HF_ENDPOINT="http://127.0.0.1:9"), "cannot look up org/name: http://127.0.0.1:9:",
            "set HF_HUB_OFFLINE=1")
        assert time.monotonic() - start < 20
        has(world.fetch("org/name", code=2, HF_ENDPOINT="127.0.0.1"), "HF_ENDPOINT is '127.0.0.1'")


def a_certificate_is_checked_and_its_authority_may_be_named():
    with World() as world:
        key, certificate = f"{world.home}/key.pem", f"{world.home}/certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
        with TlsFront(int(world.hub.url.rsplit(":", 1)[1]), key, certificate) as front:
            names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
            secret = {"HF_ENDPOINT": f"https://localhost:{front.port}", "AWS_CA_BUNDLE": "", **dict.fromkeys(names, "")}
            has(world.fetch("org/name", code=2, **secret), "SSL certificate problem", "name the file of its certificate")
            for variable in names:
                folder = world.fetch("org/name", home=variable, **{**secret, variable: certificate})
                assert Path(folder, "model.safetensors").read_bytes() == MODEL["model.safetensors"]
            has(world.fetch("org/name", home="new", code=2, **{**secret, "SSL_CERT_FILE": f"{world.home}/none.pem"}), "none.pem")
            # S3 is asked by the same client; this is none, but the certificate is what counts.
            store = {**secret, "AWS_ENDPOINT_URL": f"https://localhost:{front.port}", "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B"}
            for more, said in (({}, "SSL certificate problem"), ({"AWS_CA_BUNDLE": certificate}, "404")):
                done = subprocess.run([DATA, "count", "s3://bucket/a", "--store_attempts", "1"], env=world.environment(**{**store, **more}),
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                assert done.returncode != 0 and said in done.stdout, done.stdout


def a_redirect_loop_ends():
    with World() as world:
        world.hub.faults = [Fault("resolve", "loop", 1000)]
        has(world.fetch("org/name", code=2), "it sends from one address to the next")
        world.hub.faults = [Fault("/api/", "loop", 1000)]
        has(world.fetch("org/name", home="new", code=2), "it sends from one address to the next")


def a_full_disk_is_said_before_anything_is_fetched():
    with World() as world:
        files = world.hub.repository("model", "org/name").commits[-1].files
        files["model.safetensors"].size = 1 << 55
        error = world.fetch("org/name", code=2)
        has(error, "bytes are to be downloaded, and", "are free in", "set HF_HOME to a folder of a larger disk")
        assert world.bodies() == []


def a_disk_that_fills_up_keeps_what_came():
    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))

    with World() as world:
        done = subprocess.run([DATA, "fetch", "org/name"], env=world.environment(), preexec_fn=small_disk, restore_signals=False,
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        has(done.stderr, "cannot download org/name (model.safetensors): cannot write", "are free)")
        world.bodies()
        world.fetch("org/name")
        assert [line.split()[-1] for line in world.bodies() if "signature=1" in line] == [f"bytes={2 << 20}-"]


def names_from_the_server_never_leave_the_folder():
    for path in ("../../outside.jsonl", "/etc/outside.jsonl", "data/../../../outside.jsonl", "a\\..\\b.jsonl", "data//x.jsonl"):
        with World() as world:
            world.hub.add("dataset", "org/evil", {path: b"{}"})
            has(world.fetch("org/evil", "--repo_type", "dataset", code=2), "which would lie elsewhere than in its folder")
            assert not list(world.home.rglob("*outside*"))
    with World() as world:  # nor does the commit
        world.hub.repository("model", "org/name").commits[-1].oid = "../../outside"
        world.hub.repository("model", "org/name").branches["main"] = "../../outside"
        has(world.fetch("org/name", code=2), "names no commit")


if __name__ == "__main__":
    tests = [value for name, value in list(globals().items()) if callable(value) and value.__module__ == "__main__" and "_" in name]
    if sys.argv[1:]:
        tests = [test for test in tests if test.__name__ in sys.argv[1:]]
    for test in tests:
        start = time.monotonic()
        test()
        print(f"{test.__name__.replace('_', ' ')} ({time.monotonic() - start:.1f} s)", flush=True)
