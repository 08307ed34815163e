"""What a client needs that publishes: the hub_server's interface with tokens, commits and uploads, and faults of their own.

  with HubWithCommits() as hub:
      hub.users["hf_other"] = User("other", role="read")
      hub.faults = [Fault("/commit/", "taken 500")]
      subprocess.run([...], env={**os.environ, **hub.environment(home)})
      assert hub.commits("org/name") == ["initial commit", "Publish the student"]

Faults besides the server's: "taken CODE" answers so after a commit was made, or parts were joined; "race" lets somebody else commit first; "hold" lets a
request wait until hub.released is set; "message CODE TEXT" refuses with a text; "answer TEXT" is the whole
answer. Objects of LFS that were sent are in hub.objects, by their
hash; only those that a commit names can be read.
"""
import base64
import hashlib
import json
import re
import sys
import threading
import traceback
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from hub_server import LARGE, LARGE_NAMES, NAME, Blob, HubHandler, HubServer, StoreHandler

LFS = "application/vnd.git-lfs+json"


@dataclass
class User:
    name: str
    orgs: dict = field(default_factory=dict)  # name -> role in it
    role: str = "write"  # of the token: read, write, fineGrained
    scopes: list = field(default_factory=list)  # of a fine-grained one

    def may_write(self, owner):
        if self.role == "fineGrained":
            return any(scope["entity"]["name"].split("/")[0] == owner and "repo.write" in scope["permissions"] for scope in self.scopes)
        return self.role == "write" and (owner == self.name or self.orgs.get(owner, "read") != "read")

    def who(self):
        token = {"displayName": "test", "role": self.role}
        if self.role == "fineGrained":
            token["fineGrained"] = {"global": [], "scoped": self.scopes}
        return {"type": "user", "id": "1", "name": self.name, "fullname": self.name, "auth": {"type": "access_token", "accessToken": token},
                "orgs": [{"type": "org", "id": "2", "name": name, "roleInOrg": role} for name, role in self.orgs.items()]}


class CommitHandler(HubHandler):
    def serve(self):
        # Also where the answer does not depend on it: what is left unread would be taken for the next request.
        self.data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            HubHandler.serve(self)
        except ConnectionError:
            raise
        except Exception:  # of this server, or of what the client has sent
            traceback.print_exc()
            self.answer(400, b"the server does not understand it")

    def body(self):
        return self.data

    def json(self):
        return json.loads(self.data)

    def user(self):
        return self.hub.users.get((self.headers.get("Authorization") or "").removeprefix("Bearer "))

    def may_write(self, name):
        """Answers where this user may not."""
        user = self.user()
        if user is None:
            self.refuse(401, "", "Invalid username or password.")
        elif not user.may_write(name.split("/")[0]):
            self.refuse(403, "", f"You don't have the rights to change {name}")
        return user is not None and user.may_write(name.split("/")[0])

    def was_refused(self):
        """The faults that any of these requests may have."""
        if self.fault[:1] == ["message"]:
            self.refuse(int(self.fault[1]), "", " ".join(self.fault[2:]))
            return True
        if self.fault[:1] == ["answer"]:
            self.answer(200, " ".join(self.fault[1:]))
            return True
        if self.fault[:1] == ["hold"]:
            self.hub.held.set()
            self.hub.released.wait(60)
        return False

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve


def writes(function):
    """A route for which one must be allowed to write to the repository that its path names."""
    def answer(handler, match):
        if handler.was_refused() or not handler.may_write(match["name"]):
            return
        repository = handler.find_repository("model", match["name"])
        if repository is not None:
            function(handler, match, repository)
    return answer


def answer_who(handler, _):
    user = handler.user()
    if user is None:
        return handler.refuse(401, "", "Invalid credentials in Authorization header")
    return handler.answer_json(user.who())


def answer_create(handler, _):
    asked = handler.json()
    name = f"{asked.get('organization') or handler.user().name}/{asked['name']}"
    if handler.was_refused() or not handler.may_write(name):
        return None
    url = {"url": f"{handler.hub.url}/{name}"}
    if ("model", name) in handler.hub.repositories:
        return handler.answer_json({**url, "error": "You already created this model repo"}, 409)
    repository = handler.hub.repository(asked.get("type", "model"), name, is_private=asked.get("visibility") == "private")
    handler.hub.commit(repository, "main", {".gitattributes": Blob(b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n")}, "initial commit")
    return handler.answer_json({**url, "name": name})


def is_large(path, size):
    return size >= LARGE or path.endswith(LARGE_NAMES)


@writes
def answer_preupload(handler, match, repository):
    commit = repository.find(match["revision"])
    if commit is None:
        handler.refuse(404, "RevisionNotFound", f"Invalid rev id: {match['revision']}")
        return
    files = []
    for asked in handler.json()["files"]:
        base64.b64decode(asked["sample"], validate=True)
        large, there = is_large(asked["path"], asked["size"]), commit.files.get(asked["path"])
        files.append({"path": asked["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": asked["path"] in handler.hub.ignored})
        if there is not None:
            files[-1]["oid"] = there.sha256 if there.is_large(asked["path"]) else there.git_oid
    handler.answer_json({"files": files, "commitOid": commit.oid})


@writes
def answer_batch(handler, match, repository):
    hub, asked = handler.hub, handler.json()
    assert asked["operation"] == "upload" and asked["hash_algo"] == "sha256" and LFS in handler.headers["Accept"], asked
    answers = []
    for wanted in asked["objects"]:
        oid, size = wanted["oid"], wanted["size"]
        answer = {"oid": oid, "size": size}
        if oid not in hub.objects:
            upload = {"href": f"{hub.store_url}/put/{oid}?signature=1", "header": {"X-Of-The-Store": oid[:8]}}
            if size > hub.part_bytes:
                count = -(-size // hub.part_bytes)
                upload = {"href": f"{hub.url}/api/complete/{oid}?uploadId=1", "header": {"chunk_size": str(hub.part_bytes)}}
                upload["header"].update({str(i + 1): f"{hub.store_url}/part/{oid}/{i + 1}?signature=1" for i in range(count)})
            answer["actions"] = {"upload": upload, "verify": {"href": f"{hub.url}/{match['name']}.git/info/lfs/objects/verify", "header": {}}}
        answers.append(answer)
    handler.answer_json({"transfer": "basic", "objects": answers}, headers=[("Content-Type", LFS)])


@writes
def answer_verify(handler, match, repository):
    asked = handler.json()
    there = handler.hub.objects.get(asked["oid"])
    if there is None or len(there) != asked["size"]:
        return handler.refuse(422, "", f"{asked['oid']} is not there, or of another size")
    return handler.answer_json({})


def answer_complete(handler, match):
    hub, oid, asked = handler.hub, match["oid"], handler.json()
    parts = [hub.parts.get((oid, part["partNumber"]), b"") for part in asked["parts"]]
    etags = [f'"{hashlib.md5(part).hexdigest()}"' for part in parts]
    if asked["oid"] != oid or [part["etag"] for part in asked["parts"]] != etags or not hub.keep(oid, b"".join(parts)):
        return handler.refuse(400, "", "the parts are not those that were sent")
    for part in asked["parts"]:
        del hub.parts[oid, part["partNumber"]]  # there is no such upload any more
    if handler.fault[:1] == ["taken"]:
        return handler.refuse(int(handler.fault[1]), "", "said by the test, after the parts were joined")
    return handler.answer_json({})


def read_commit(handler):
    """Header and files of a commit's lines; None where that has been answered."""
    header, files = None, {}
    for line in handler.data.decode().strip().split("\n"):
        item = json.loads(line)
        value = item["value"]
        if item["key"] == "header":
            header = value
        elif item["key"] == "file":
            assert value["encoding"] == "base64"
            files[value["path"]] = Blob(base64.b64decode(value["content"], validate=True))
        elif item["key"] == "deletedFile":
            files[value["path"]] = None
        elif item["key"] == "lfsFile" and value["oid"] in handler.hub.objects:
            files[value["path"]] = Blob(handler.hub.objects[value["oid"]])
        else:
            return handler.refuse(400, "", f"{item['key']}: {value} is not known, or was not sent")
    return header, files


@writes
def answer_commit(handler, match, repository):
    hub, branch = handler.hub, match["revision"]
    read = read_commit(handler)
    if read is None:
        return None
    header, files = read
    if handler.fault[:1] == ["race"]:
        hub.commit(repository, branch, {f"theirs-{len(repository.commits)}.txt": Blob(b"of somebody else")}, "theirs")
    with hub.lock:
        head = repository.branches[branch]
        if header.get("parentCommit", head) != head:
            return handler.refuse(412, "", "A commit has happened since. Please refresh and try again.")
        oid = hub.commit(repository, branch, files, header["summary"])
    if handler.fault[:1] == ["taken"]:
        return handler.refuse(int(handler.fault[1]), "", "said by the test, after the commit")
    return handler.answer_json({"success": True, "commitOid": oid, "commitUrl": f"{hub.url}/{match['name']}/commit/{oid}", "hookOutput": ""})


@writes
def answer_branch(handler, match, repository):
    if match["revision"] in repository.branches:
        return handler.refuse(409, "", "Reference already exists")
    repository.branches[match["revision"]] = repository.branches[handler.json().get("startingPoint", "main")]
    return handler.answer(201, b"")


def answer_yaml(handler, _):
    text = handler.json()["content"]
    good = re.match(r"---\n.*?\n---\n", text, re.S)
    handler.answer_json({"errors": [] if good else [{"message": "no metadata"}], "warnings": []}, 200 if good else 400)


CommitHandler.ROUTES = [
    ("GET", r"/api/whoami-v2", answer_who),
    ("POST", r"/api/repos/create", answer_create),
    ("POST", r"/api/validate-yaml", answer_yaml),
    ("POST", r"/api/complete/(?P<oid>[0-9a-f]{64})", answer_complete),
    ("POST", rf"/api/models/{NAME}/preupload/(?P<revision>.+)", answer_preupload),
    ("POST", rf"/api/models/{NAME}/commit/(?P<revision>.+)", answer_commit),
    ("POST", rf"/api/models/{NAME}/branch/(?P<revision>.+)", answer_branch),
    ("POST", rf"/{NAME}\.git/info/lfs/objects/batch", answer_batch),
    ("POST", rf"/{NAME}\.git/info/lfs/objects/verify", answer_verify),
    *HubHandler.ROUTES,
]


class ObjectHandler(StoreHandler):
    def serve(self):
        self.data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        StoreHandler.serve(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve


def put_object(handler, match):
    oid = match["oid"]
    if handler.headers.get("X-Of-The-Store") not in (None, oid[:8]) or not handler.hub.keep(oid, handler.data):
        return handler.answer(400, b"<Error>BadDigest</Error>")
    return handler.answer(200)


def put_part(handler, match):
    handler.hub.parts[(match["oid"], int(match["part"]))] = handler.data
    return handler.answer(200, b"", [("ETag", f'"{hashlib.md5(handler.data).hexdigest()}"')])


ObjectHandler.ROUTES = [
    ("PUT", r"/put/(?P<oid>[0-9a-f]{64})", put_object),
    ("PUT", r"/part/(?P<oid>[0-9a-f]{64})/(?P<part>\d+)", put_part),
    *StoreHandler.ROUTES,
]


class HubWithCommits(HubServer):
    def __init__(self, part_bytes=1 << 40):
        self.part_bytes = part_bytes  # what is longer is to be sent in parts of this size
        self.objects, self.parts, self.summaries = {}, {}, {}
        self.users = {"hf_test": User("ada", {"org": "admin"})}
        self.ignored = set()  # paths that the .gitignore of each repository leaves out
        self.held, self.released = threading.Event(), threading.Event()
        super().__init__(handler=CommitHandler, store_handler=ObjectHandler)

    def keep(self, oid, data):
        good = hashlib.sha256(data).hexdigest() == oid
        if good:
            self.objects[oid] = data
        return good

    def commit(self, repository, branch, files, summary):
        """These files over those of the branch; None in place of one removes it."""
        parent = repository.find(branch)
        merged = {**(parent.files if parent else {}), **files}
        oid = repository.add({path: blob for path, blob in merged.items() if blob is not None}, branch)
        self.summaries[oid] = summary
        return oid

    def commits(self, name):
        """First lines of a repository's commits, the oldest first."""
        repository = self.repositories.get(("model", name))
        return [self.summaries[commit.oid] for commit in repository.commits] if repository else []

    def files(self, name, branch="main"):
        """Bytes of a branch's files, by path."""
        commit = self.repositories[("model", name)].find(branch)
        return {path: blob.contents for path, blob in commit.files.items() if path != ".gitattributes"}
