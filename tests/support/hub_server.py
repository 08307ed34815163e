#!/usr/bin/env python3
"""A server that speaks the interface of the Hugging Face hub, as far as reading goes, with repositories in memory or on a disk, and
with faults. Large files lie on a second port, as the hub keeps them on other hosts: a token that arrives there is a leak. Standard library only.

  with HubServer() as hub:
      commit = hub.add("model", "org/name", {"config.json": b"{}", "model.safetensors": Path("model.safetensors")})
      subprocess.run([...], env={**os.environ, **hub.environment(cache)})
      hub.faults = [Fault("GET /org/name/resolve/", "short")]
      assert hub.log.count(...)

  hub_server.py FOLDER     serves FOLDER/models/ORG/NAME and FOLDER/datasets/ORG/NAME, a commit each, until it is ended; prints its URL

ROUTES are (method, regular expression of the path, function(handler, match)): whoever has more to serve adds to a copy of them in a
subclass of HubHandler. The function answers by handler.answer(...) or handler.answer_json(...).
"""
import hashlib
import json
import os
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 10 << 20  # bytes from which a file is a large one, whatever its name
LARGE_NAMES = (".safetensors", ".parquet", ".bin", ".h5", ".gz", ".zst", ".pt", ".onnx", ".model")
PAGE = 50  # entries of a listing, in one answer
NAME = r"(?P<name>[^/]+/[^/]+?|[^/]+?)"


class Blob:
    """A file of a commit: bytes, or a path of the disk."""

    def __init__(self, contents):
        self.contents = contents
        self.size = contents.stat().st_size if isinstance(contents, Path) else len(contents)
        sha1, sha256 = hashlib.sha1(b"blob %d\0" % self.size), hashlib.sha256()
        for piece in self.pieces(0, self.size):
            sha1.update(piece)
            sha256.update(piece)
        self.git_oid, self.sha256 = sha1.hexdigest(), sha256.hexdigest()

    def pieces(self, offset, size):
        if not isinstance(self.contents, Path):
            yield memoryview(self.contents)[offset:offset + size]
            return
        with open(self.contents, "rb") as file:
            file.seek(offset)
            while size > 0:
                piece = file.read(min(size, 1 << 20))
                if not piece:
                    return
                size -= len(piece)
                yield piece

    def is_large(self, path):
        return self.size >= LARGE or path.endswith(LARGE_NAMES)

    def pointer_oid(self):
        """What git keeps of a large file."""
        text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()
        return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()


@dataclass
class Commit:
    oid: str
    files: dict  # path -> Blob


@dataclass
class Repository:
    kind: str  # "model" or "dataset"
    name: str
    commits: list = field(default_factory=list)
    branches: dict = field(default_factory=dict)  # also tags
    is_gated: bool = False
    is_private: bool = False

    def find(self, revision):
        oid = self.branches.get(revision, revision)
        return next((commit for commit in reversed(self.commits) if commit.oid == oid), None)

    def add(self, files, branch="main"):
        """A commit of exactly these files: {path: bytes, Path or Blob}."""
        blobs = {path: what if isinstance(what, Blob) else Blob(what) for path, what in files.items()}
        parent = self.branches.get(branch, "")
        text = json.dumps([self.kind, self.name, parent, len(self.commits), {path: blob.sha256 for path, blob in sorted(blobs.items())}])
        commit = Commit(hashlib.sha1(text.encode()).hexdigest(), blobs)
        self.commits.append(commit)
        self.branches[branch] = commit.oid
        return commit.oid


@dataclass
class Fault:
    """match: a part of "GET /org/name/resolve/main/file bytes=0-9". do: status CODE [X-Error-Code] | short | wrong | stall | slow BYTES_A_SECOND
    | no_ranges | loop"""
    match: str
    do: str
    times: int = 1


class HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    ROUTES = []
    hub = None  # the HubServer

    def log_message(self, *_):
        pass

    # What functions of routes use.
    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def query(self):
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}

    def answer(self, status, body=b"", headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value, status=200, headers=()):
        self.answer(status, json.dumps(value), [("Content-Type", "application/json"), *headers])

    def refuse(self, status, code, message):
        headers = [("X-Error-Code", code)] if code else []
        self.answer(status, json.dumps({"error": message}), [*headers, ("X-Error-Message", message), ("Content-Type", "application/json")])

    def find_repository(self, kind, name):
        """Answers, and gives None, where there is none or this user may not see it."""
        found = self.hub.repositories.get((kind, name))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        is_user = token != "" and token == self.hub.token
        if found is None or (found.is_private and not is_user):
            self.refuse(404 if is_user else 401, "RepoNotFound", "Repository not found")
            return None
        return found

    # One answer with a blob, or a range of it.
    def answer_blob(self, blob, headers, is_range_known=True):
        first, last, status = 0, blob.size - 1, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and is_range_known and "no_ranges" not in self.fault:
            first, last = int(asked[1]), min(int(asked[2]) if asked[2] else blob.size - 1, blob.size - 1)
            if first >= blob.size:
                return self.answer(416, b"", [("Content-Range", f"bytes */{blob.size}")])
            status = 206
            headers = [*headers, ("Content-Range", f"bytes {first}-{last}/{blob.size}")]
        self.send_response(status)
        for name, value in [*headers, ("Accept-Ranges", "bytes"), ("Content-Length", str(last - first + 1))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send_blob(blob, first, last - first + 1)
        return None

    def send_blob(self, blob, offset, size):
        kind = self.fault[0] if self.fault else ""
        sent = size // 2 if kind in ("short", "stall") else size
        with self.hub.lock:
            self.hub.bytes_sent += sent
        if kind == "" and isinstance(blob.contents, Path):
            self.wfile.flush()
            with open(blob.contents, "rb") as file:
                while sent > 0:
                    count = os.sendfile(self.connection.fileno(), file.fileno(), offset, sent)
                    offset, sent = offset + count, sent - count
            return
        for piece in blob.pieces(offset, sent):
            if kind == "wrong":
                piece = bytes([piece[0] ^ 1]) + piece[1:]
                kind = ""
            self.write_piece(piece, float(self.fault[1]) if kind == "slow" else None)
        self.wfile.flush()
        if kind == "stall":
            self.hub.ended.wait(60)
        if kind in ("short", "stall"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def write_piece(self, piece, bytes_a_second):
        if bytes_a_second is None:
            return self.wfile.write(piece)
        for begin in range(0, len(piece), 16384):
            self.wfile.write(piece[begin:begin + 16384])
            time.sleep(16384 / bytes_a_second)
        return None

    def take_fault(self, line):
        with self.hub.lock:
            self.hub.log.append(line)
            for fault in self.hub.faults:
                if fault.match in line and fault.times > 0:
                    fault.times -= 1
                    return fault.do.split()
        return []

    def serve(self):
        path = unquote(urlsplit(self.path).path)
        self.fault = self.take_fault(f"{self.command} {unquote(self.path)} {self.headers.get('Range', '')}".strip())
        if self.fault[:1] == ["status"]:
            return self.refuse(int(self.fault[1]), self.fault[2] if len(self.fault) > 2 else "", "said by the test")
        for old, new in self.hub.renamed.items():
            if re.search(rf"/{old}([/?]|\.git/|$)", self.path):
                return self.answer(307, b"", [("Location", self.path.replace(f"/{old}", f"/{new}", 1))])
        if self.fault[:1] == ["loop"]:
            return self.answer(302, b"", [("Location", self.path)])
        if self.fault[:1] == ["stall"] and path.startswith("/api/"):
            self.hub.ended.wait(60)
            self.close_connection = True
            return None
        for method, pattern, function in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if match and (method == self.command or (method == "GET" and self.command == "HEAD")):
                return function(self, match)
        return self.refuse(404, "", f"no such page: {path}")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = serve


def kind_of(match):
    return "dataset" if (match["kind"] or "").strip("/") == "datasets" else "model"


def find_commit(handler, match):
    """The repository and its commit; None where that has been answered."""
    repository = handler.find_repository(kind_of(match), match["name"])
    if repository is None:
        return None
    commit = repository.find(match["revision"] or "main")
    if commit is None:
        return handler.refuse(404, "RevisionNotFound", f"Invalid rev id: {match['revision']}")
    return repository, commit


def answer_info(handler, match):
    found = find_commit(handler, match)
    if found is None:
        return
    repository, commit = found
    siblings = []
    for path, blob in sorted(commit.files.items()):
        sibling = {"rfilename": path}
        if "blobs" in handler.query():
            large = blob.is_large(path)
            sibling.update(size=blob.size, blobId=blob.pointer_oid() if large else blob.git_oid)
            if large:
                sibling["lfs"] = {"sha256": blob.sha256, "size": blob.size, "pointerSize": 134}
        siblings.append(sibling)
    handler.answer_json({"_id": "0", "id": repository.name, "sha": commit.oid, "siblings": siblings, "private": repository.is_private,
                         "gated": "manual" if repository.is_gated else False, "disabled": False, "tags": [], "downloads": 0, "likes": 0})


def tree_entries(commit, folder, is_recursive):
    entries, folders = [], set()
    for path, blob in sorted(commit.files.items()):
        if folder and not path.startswith(folder + "/"):
            continue
        parts = path[len(folder) + 1 if folder else 0:].split("/")
        for depth in range(1, len(parts) if is_recursive else min(len(parts), 2)):
            below = "/".join(([folder] if folder else []) + parts[:depth])
            if below not in folders:
                folders.add(below)
                entries.append({"type": "directory", "oid": hashlib.sha1(below.encode()).hexdigest(), "size": 0, "path": below})
        if is_recursive or len(parts) == 1:
            large = blob.is_large(path)
            entry = {"type": "file", "oid": blob.pointer_oid() if large else blob.git_oid, "size": blob.size, "path": path}
            if large:
                entry["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": 134}
            entries.append(entry)
    return entries


def answer_tree(handler, match):
    found = find_commit(handler, match)
    if found is None:
        return
    query = handler.query()
    entries = tree_entries(found[1], (match["folder"] or "").strip("/"), query.get("recursive", "").lower() in ("1", "true"))
    begin = int(query.get("cursor", 0))
    headers = []
    if begin + PAGE < len(entries):
        address = urlsplit(handler.path)
        kept = [f"{name}={value}" for name, value in query.items() if name != "cursor"]
        headers = [("Link", f'<{handler.hub.url}{address.path}?{"&".join([*kept, f"cursor={begin + PAGE}"])}>; rel="next"')]
    handler.answer_json(entries[begin:begin + PAGE], headers=headers)


def answer_file(handler, match):
    found = find_commit(handler, match)
    if found is None:
        return
    repository, commit = found
    token = (handler.headers.get("Authorization") or "").removeprefix("Bearer ")
    if repository.is_gated and token != handler.hub.token:
        return handler.refuse(403 if token else 401, "GatedRepo", f"Access to {repository.kind} {repository.name} is restricted")
    blob = commit.files.get(match["path"])
    if blob is None:
        handler.answer(404, b"Entry not found", [("X-Error-Code", "EntryNotFound"), ("X-Error-Message", "Entry not found"),
                                                 ("X-Repo-Commit", commit.oid)])
        return
    headers = [("X-Repo-Commit", commit.oid)]
    if blob.is_large(match["path"]):
        handler.answer(302, b"", [*headers, ("X-Linked-Etag", f'"{blob.sha256}"'), ("X-Linked-Size", str(blob.size)),
                                  ("ETag", f'"{blob.pointer_oid()}"'), ("Location", f"{handler.hub.store_url}/{blob.sha256}?signature=1")])
    else:
        handler.answer_blob(blob, [*headers, ("ETag", f'"{blob.git_oid}"'), ("Content-Disposition", "inline")])


HubHandler.ROUTES = [
    ("GET", rf"/api/(?P<kind>models|datasets)/{NAME}/tree/(?P<revision>[^/]+|refs/[^/]+/[^/]+)(?P<folder>/.*)?", answer_tree),
    ("GET", rf"/api/(?P<kind>models|datasets)/{NAME}/revision/(?P<revision>.+)", answer_info),
    ("GET", rf"/api/(?P<kind>models|datasets)/{NAME}(?P<revision>)", answer_info),
    ("GET", rf"(?P<kind>/datasets|)/{NAME}/resolve/(?P<revision>refs/[^/]+/[^/]+|[^/]+)/(?P<path>.+)", answer_file),
]


class StoreHandler(HubHandler):
    """Where large files lie."""

    ROUTES = []

    def serve(self):
        if self.headers.get("Authorization") is not None:
            self.hub.leaks.append(f"{self.command} {self.path}")
        return HubHandler.serve(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve


def answer_large(handler, match):
    blob = handler.hub.find_blob(match["sha256"])
    if blob is None:
        return handler.answer(403, b"<Error>AccessDenied</Error>")
    return handler.answer_blob(blob, [("ETag", f'"{blob.sha256[:32]}"')])


StoreHandler.ROUTES = [("GET", r"/(?P<sha256>[0-9a-f]{64})", answer_large)]


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):  # a client that was killed, or has cut a stalled answer
        pass


class HubServer(QuietServer):
    """On two free ports of loopback, until close() or the end of the block."""

    def __init__(self, token="hf_test", handler=HubHandler, store_handler=StoreHandler):
        self.repositories, self.faults, self.log, self.leaks = {}, [], [], []
        self.renamed = {}  # {old name: new name} of repositories
        self.token, self.bytes_sent = token, 0
        self.lock, self.ended = threading.Lock(), threading.Event()
        super().__init__(("127.0.0.1", 0), type("Handler", (handler,), {"hub": self}))
        self.store = QuietServer(("127.0.0.1", 0), type("StoreHandler", (store_handler,), {"hub": self}))
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.store_url = f"http://127.0.0.1:{self.store.server_address[1]}"
        for server in (self, self.store):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.ended.set()
        for server in (self, self.store):
            server.shutdown()
            server.server_close()

    def repository(self, kind, name, **more):
        return self.repositories.setdefault((kind, name), Repository(kind, name, **more))

    def add(self, kind, name, files, branch="main", **more):
        """A commit of exactly these files: its name."""
        return self.repository(kind, name, **more).add(files, branch)

    def find_blob(self, sha256):
        for repository in self.repositories.values():
            for commit in repository.commits:
                for blob in commit.files.values():
                    if blob.sha256 == sha256:
                        return blob
        return None

    def environment(self, home, token=None):
        """For a client with its files under `home`."""
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_TOKEN": self.token if token is None else token, "HF_HUB_OFFLINE": "0",
                "HF_HUB_CACHE": os.path.join(str(home), "hub"), "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}

    def take_log(self):
        """What was asked for since the last call: "GET /path bytes=0-9", a line each."""
        with self.lock:
            log, self.log[:] = list(self.log), []
            return log


def serve_folder(folder):
    hub = HubServer()
    for kind in ("model", "dataset"):
        for path in sorted(folder.glob(f"{kind}s/*/*")):
            files = {str(file.relative_to(path)): file for file in path.rglob("*") if file.is_file()}
            hub.add(kind, f"{path.parent.name}/{path.name}", files)
    print(hub.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve_folder(Path(sys.argv[1]).resolve())
