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
    "text": ["core", "store"],
    "data": ["core", "store", "text"],
    "metrics": ["core", "proto", "store"],
    "tensor": ["core", "store"],
    "nn": ["core", "store", "tensor"],
    "loss": ["core", "tensor"],
    "checkpoint": ["core", "proto", "store", "tensor"],
    "train": ["core", "config", "proto", "store", "world", "transport", "comm", "text", "data", "metrics", "tensor", "nn",
              "loss", "checkpoint"],
}
TORCH_ROOMS = {"tensor", "nn", "loss", "checkpoint", "train"}
# Third-party headers that stay out of our headers; *.pb.h moreover stays inside proto.
HIDDEN = re.compile(r"^(nccl\.h|mpi\.h|rdma/|hdf5\.h|openssl/|yaml-cpp/|CLI/|spdlog/|simdjson|nlohmann/|pcre2|utf8proc|"
                    r"xxhash|cuda|.*\.pb\.h)")


def includes(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match:
                yield number, match[1]


def wrong_arrows():
    for room, allowed in ALLOWED.items():
        folder = os.path.join(SOURCE, "libdistill", room)
        for name in sorted(os.listdir(folder)):
            if not name.endswith((".h", ".cc", ".cu", ".cuh")):
                continue
            for number, target in includes(os.path.join(folder, name)):
                place = f"libdistill/{room}/{name}:{number}"
                match = re.match(r"libdistill/(\w+)/", target)
                if match and match[1] != room and match[1] not in allowed:
                    yield f"{place}: {room} must not include {target}"
                if re.match(r"(torch|c10|ATen)/", target) and room not in TORCH_ROOMS:
                    yield f"{place}: {room} must not see torch ({target})"
                if name.endswith(".h") and HIDDEN.match(target):
                    yield f"{place}: {target} belongs in .cc files only"
                if target.endswith(".pb.h") and room != "proto":
                    yield f"{place}: only proto may include {target}"


def unknown_rooms():
    for name in sorted(os.listdir(os.path.join(SOURCE, "libdistill"))):
        if os.path.isdir(os.path.join(SOURCE, "libdistill", name)) and name not in ALLOWED:
            yield f"libdistill/{name}: a room that tests/project/layers.py does not know"


def main():
    errors = list(wrong_arrows()) + list(unknown_rooms())
    print("\n".join(errors) or "every include follows the layers")
    sys.exit(bool(errors))


main()
