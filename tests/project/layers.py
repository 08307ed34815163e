"""The layering rule: reads every #include and fails on an arrow that docs/architecture.md does not draw."""
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A room may include itself and these. Lower rooms see no torch header.
ALLOWED = {
    "core": [],
    "config": ["core"],
    "proto": ["core"],
    "store": ["core"],
    "world": ["core"],
    "transport": ["core", "world"],
    "comm": ["core", "world", "transport"],
    "simulate": ["core", "world", "transport", "comm"],
    "jinja": ["core"],
    "text": ["core", "proto", "store", "jinja"],
    "data": ["core", "store", "text"],
    "metrics": ["core", "proto", "store"],
    "tensor": ["core", "store"],
    "nn": ["core", "store", "tensor"],
    "loss": ["core", "tensor"],
    "optim": ["core", "tensor"],
    "checkpoint": ["core", "proto", "store", "world", "comm", "tensor"],
    "gradients": ["core", "world", "transport", "comm", "store", "tensor", "nn", "optim"],
    "shard": ["core", "world", "transport", "comm", "store", "tensor", "nn", "optim", "gradients"],
    "task": ["core", "store", "text", "data", "tensor", "nn", "loss"],
    "plan": ["core", "world", "comm", "store", "tensor", "nn", "loss", "optim", "gradients", "shard"],
    "run": ["core", "store", "world", "comm", "tensor", "nn", "shard"],
    "train": ["core", "config", "proto", "store", "world", "transport", "comm", "text", "data", "metrics", "tensor", "nn",
              "loss", "optim", "checkpoint", "gradients", "shard", "task", "plan", "run"],
}
TORCH_ROOMS = {"tensor", "nn", "loss", "optim", "checkpoint", "gradients", "shard", "task", "plan", "run", "train"}
# Beside the library: the rooms that a folder may include, and whether it sees torch. Each may include itself; nobody
# else includes it.
PROGRAMS = {
    "launcher": (["core", "world", "comm"], False),
    "examples": (list(ALLOWED), True),
    "bench": (list(ALLOWED), True),
}
# Third-party headers that stay out of our headers (their forward declarations may come in); *.pb.h moreover stays inside
# proto.
HIDDEN = re.compile(r"^(nccl\.h|mpi\.h|rdma/|hdf5\.h|openssl/|yaml-cpp/|CLI/|spdlog/|simdjson|nlohmann/(?!json_fwd)|pcre2|utf8proc|"
                    r"xxhash|cublas|cuda|curl/|pugixml|zlib\.h|zstd|arrow/|parquet/|cairo|.*\.pb\.h)")


def includes(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match:
                yield number, match[1]


def sources(folder):
    for place, folders, names in os.walk(os.path.join(SOURCE, folder)):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".h", ".cc", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(place, name), SOURCE)


def wrong_arrow(folder, path, target, rooms, sees_torch):
    """Why `path`, in `folder`, must not include `target`; None when it may."""
    room = re.match(r"libdistill/(\w+)/", target)
    if room and not target.startswith(folder + "/") and room[1] not in rooms:
        return f"{folder} must not include {target}"
    if target == "libdistill/distill.h" and folder not in ("examples", "bench"):
        return f"{target} is for programs"
    if re.match(r"(launcher|examples|bench|tests)/", target) and not target.startswith(folder + "/"):
        return f"{folder} must not include {target}"
    if re.match(r"(torch|c10|ATen)/", target) and not sees_torch:
        return f"{folder} must not see torch ({target})"
    if path.endswith(".h") and HIDDEN.match(target):
        return f"{target} belongs in .cc files only"
    if target.endswith(".pb.h") and folder != "libdistill/proto":
        return f"only proto may include {target}"
    return None


def wrong_arrows():
    folders = {f"libdistill/{room}": (rooms, room in TORCH_ROOMS) for room, rooms in ALLOWED.items()}
    for folder, (rooms, sees_torch) in {**folders, **PROGRAMS}.items():
        for path in sources(folder):
            for number, target in includes(os.path.join(SOURCE, path)):
                why = wrong_arrow(folder, path, target, rooms, sees_torch)
                if why:
                    yield f"{path}:{number}: {why}"


def check_the_check():
    """The rule itself, on arrows that must and must not be."""
    rooms = ALLOWED["comm"]
    below_torch, no_torch = PROGRAMS["launcher"]
    assert wrong_arrow("libdistill/comm", "x.cc", "libdistill/world/world.h", rooms, False) is None
    assert wrong_arrow("libdistill/comm", "x.cc", "libdistill/comm/ring.h", rooms, False) is None
    assert wrong_arrow("libdistill/comm", "x.cc", "libdistill/train/trainer.h", rooms, False)
    assert wrong_arrow("libdistill/comm", "x.cc", "torch/torch.h", rooms, False)
    assert wrong_arrow("libdistill/comm", "x.h", "mpi.h", rooms, False)
    assert wrong_arrow("libdistill/comm", "x.cc", "launcher/options.h", rooms, False)
    assert wrong_arrow("libdistill/comm", "x.cc", "libdistill/distill.h", rooms, False)
    assert wrong_arrow("launcher", "x.cc", "libdistill/world/slurm.h", below_torch, no_torch) is None
    assert wrong_arrow("launcher", "x.cc", "libdistill/nn/decoder.h", below_torch, no_torch)
    assert wrong_arrow("bench", "x.cc", "examples/llm/answer.h", *PROGRAMS["bench"])
    assert wrong_arrow("bench", "x.cc", "checkpoint.pb.h", *PROGRAMS["bench"])


def unknown_rooms():
    for name in sorted(os.listdir(os.path.join(SOURCE, "libdistill"))):
        if os.path.isdir(os.path.join(SOURCE, "libdistill", name)) and name not in ALLOWED:
            yield f"libdistill/{name}: a room that tests/project/layers.py does not know"


def main():
    check_the_check()
    errors = list(wrong_arrows()) + list(unknown_rooms())
    print("\n".join(errors) or "every include follows the layers")
    sys.exit(bool(errors))


main()
