"""A large file of the Hugging Face hub, from a hub on loopback: distill_data fetch, which checks the hash, beside curl, which does not."""
import filecmp
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from suite.programs import BIN, REPO
from suite.rounds import in_rounds, lines

SIZE, QUICK_SIZE = 1 << 30, 64 << 20


class Hub:
    """A hub with one model, whose files lie in `folder`."""

    def __init__(self, folder, size):
        model = f"{folder}/models/bench/large"
        self.weights, self.size = f"{model}/model.safetensors", size
        if not os.path.exists(self.weights) or os.path.getsize(self.weights) != size:
            os.makedirs(model, exist_ok=True)
            pathlib.Path(model, "config.json").write_text("{}", encoding="utf-8")
            with open(self.weights, "wb") as file:
                for _ in range(size >> 20):
                    file.write(os.urandom(1 << 20))
        self.process = subprocess.Popen([sys.executable, f"{REPO}/tests/support/hub_server.py", folder], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def end(self):
        self.process.terminate()
        self.process.wait()

    def timed(self, command_of):
        """A contestant: the command's download into a fresh folder."""
        def contestant():
            with tempfile.TemporaryDirectory(dir=f"{REPO}/build/bench") as out:
                environment = {"HF_ENDPOINT": self.url, "HF_HOME": out, "HF_HUB_CACHE": f"{out}/hub", "HF_TOKEN": "", "HF_HUB_OFFLINE": "0"}
                begin = time.monotonic()
                subprocess.run(command_of(out), check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
                seconds = time.monotonic() - begin
                if not any(path.is_file() and filecmp.cmp(path, self.weights, shallow=False) for path in pathlib.Path(out).rglob("*")):
                    sys.exit(f"error: {command_of(out)[0]} has not downloaded the file")
            return {"hub": {"mb_s": self.size / seconds / 1e6}}
        return contestant


def hub_download(options):
    size = QUICK_SIZE if options.quick else SIZE
    hub = Hub(f"{REPO}/build/bench/hub-{size}", size)
    try:
        contestants = {"ours": hub.timed(lambda _: [f"{BIN}/distill_data", "fetch", "bench/large"])}
        if options.peers:
            url = f"{hub.url}/bench/large/resolve/main/model.safetensors"
            contestants["curl"] = hub.timed(lambda out: ["curl", "-fsSL", "-o", f"{out}/file", url])
        yield from lines("loader", "hub", "MB/s", in_rounds(contestants, options.rounds), "mb_s")
    finally:
        hub.end()
