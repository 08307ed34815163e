"""Data as users read them today; prints a line JSON {seconds, ...}.

  read_data.py parquet FROM.jsonl TO.parquet         makes the file, as data sets of the hub are
  read_data.py make_trials FILE COUNT                recordings: /trial_NNNN/input_features float32 [T, 512] with gzip, seq_class_ids
  read_data.py rows FILE                             datasets, streaming, one process
  read_data.py map FILE TOKENIZER CACHE              datasets.map with transformers' tokenizer, on all cores; what was cached is used
  read_data.py trials URL KEY SECRET REGION NUMBER...   h5py on a file object that fetches ranges, with s3fs' default of 5 MiB ahead
"""
import io
import json
import os
import sys
import time

CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def report(start, **figures):
    print("JSON " + json.dumps({"seconds": time.monotonic() - start, **figures}))


def parquet(source, target):
    import pyarrow
    import pyarrow.json
    import pyarrow.parquet
    table = pyarrow.json.read_json(source, parse_options=pyarrow.json.ParseOptions(newlines_in_values=False),
                                   read_options=pyarrow.json.ReadOptions(block_size=1 << 24))
    pyarrow.parquet.write_table(table, target, row_group_size=1000)


def make_trials(path, count):
    import h5py
    import numpy
    rng = numpy.random.default_rng(5)
    with h5py.File(path, "w") as file:
        for number in range(int(count)):
            group = file.create_group(f"trial_{number:04d}")
            frames = int(rng.integers(300, 900))
            features = (rng.standard_normal((frames, 512)) * 20).round().astype("f4") / 10  # spike counts and powers are coarse
            group.create_dataset("input_features", data=features, compression="gzip")
            group.create_dataset("seq_class_ids", data=rng.integers(0, 41, 500).astype("i4"))
            group.attrs["seq_len"] = 40
            group.attrs["sentence_label"] = f"sentence {number}"


def rows(path):
    from datasets import load_dataset
    start = time.monotonic()
    kind = "json" if path.endswith(".jsonl") else "parquet"
    letters = sum(len(row["messages"]) for row in load_dataset(kind, data_files=path, split="train", streaming=True))
    seconds = time.monotonic() - start
    report(start, mb_s=os.path.getsize(path) * 1e-6 / seconds, checksum=str(letters))


def tokenize(path, folder, cache):
    import datasets
    from transformers import PreTrainedTokenizerFast
    datasets.disable_progress_bars()
    start = time.monotonic()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", chat_template=CHATML)
    data = datasets.load_dataset("json", data_files=path, split="train", cache_dir=cache)
    made = data.map(lambda row: {"ids": tokenizer.apply_chat_template(row["messages"], tokenize=True, return_dict=False)},
                    remove_columns=data.column_names, num_proc=len(os.sched_getaffinity(0)))
    length = len(made[0]["ids"])
    report(start, checksum=f"{len(made)} {length}")


class RangedFile(io.RawIOBase):
    """Signed range requests over one connection, 5 MiB ahead of what is asked."""
    AHEAD = 5 << 20

    def __init__(self, url, key, secret, region):
        super().__init__()
        import http.client
        import urllib.parse
        self.parts, self.key, self.secret, self.region = urllib.parse.urlsplit(url), key, secret, region
        self.connection = http.client.HTTPConnection(self.parts.netloc)
        self.place, self.begin, self.bytes = 0, 0, b""
        self.size = int(self.ask("HEAD").getheader("Content-Length"))

    def ask(self, method, begin=None, end=None):
        import datetime
        import hashlib
        import hmac
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        headers = {"host": self.parts.netloc, "x-amz-content-sha256": empty, "x-amz-date": now}
        names = ";".join(sorted(headers))
        request = "\n".join([method, self.parts.path, "", *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, empty])
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signer = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            signer = hmac.new(signer, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(signer, text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        if begin is not None:
            headers["range"] = f"bytes={begin}-{end - 1}"
        self.connection.request(method, self.parts.path, headers=headers)
        answer = self.connection.getresponse()
        if answer.status not in (200, 206):
            sys.exit(f"error: {answer.status} {answer.read()[:300]}")
        if method == "HEAD":
            answer.read()
        return answer

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.place

    def seek(self, offset, whence=0):
        self.place = offset + (0, self.place, self.size)[whence]
        return self.place

    def readinto(self, out):
        size = min(len(out), self.size - self.place)
        if not self.begin <= self.place <= self.place + size <= self.begin + len(self.bytes):
            self.begin = self.place
            self.bytes = self.ask("GET", self.place, min(self.size, self.place + size + self.AHEAD)).read()
        out[:size] = self.bytes[self.place - self.begin:self.place - self.begin + size]
        self.place += size
        return size


def trials(url, key, secret, region, *numbers):
    import h5py
    start = time.monotonic()
    total = 0.0
    with h5py.File(RangedFile(url, key, secret, region), "r") as file:
        for number in numbers:
            group = file[f"trial_{int(number):04d}"]
            total += float(group["input_features"][()].sum(dtype="f8"))
            group["seq_class_ids"][()]
            group.attrs["sentence_label"]
    report(start, trials_s=len(numbers) / (time.monotonic() - start), checksum=f"{total:.3f}")


if __name__ == "__main__":
    {"parquet": parquet, "make_trials": make_trials, "rows": rows, "map": tokenize, "trials": trials}[sys.argv[1]](*sys.argv[2:])
