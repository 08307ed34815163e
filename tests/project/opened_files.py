"""Files are opened by store/ alone, so that every path may be of any store. Fails on a module that opens, makes, renames or
removes one by itself."""
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPENS = re.compile(r"std::(i|o|)fstream|\bfopen\(|[^\w.>:]open\([^()]*(\([^()]*\)[^()]*)*\bO_|"
                   r"(filesystem|\bfs)::(create_|remove|rename|copy|resize_file)|[^\w.>:](mkdir|rmdir|unlink|mkstemp|mkdtemp)\(")

# Why these may.
ALLOWED = {
    "checkpoint/output_lock.cc": "holds a lock on a descriptor; in S3 it is store_lock.cc",
    "comm/tuning_file.cc": "a table of this machine's costs, below store/ in the layers",
    "config/config_file.cc": "the program's own settings, which say how stores are asked; below store/ in the layers",
    "metrics/local_record_file.cc": "adds to a local file in place; in S3 it is record_object.cc",
    "tensor/peak_memory.cc": "/proc",
    "transport/fabric_open.cc": "/sys",
    "transport/shared_memory.cc": "memory between processes",
    "transport/tcp_send_buffer.cc": "/proc",
    "world/available_memory.cc": "/proc and control groups",
    "world/build_id.cc": "/proc/self/exe",
    "world/control_groups.cc": "/proc and control groups",
    "world/host_id.cc": "/proc",
    "world/process.cc": "/proc and /dev/null",
    "world/world.cc": "the launcher's file on this host; below store/ in the layers",
}


def offenders():
    library = os.path.join(SOURCE, "libdistill")
    for place, folders, names in os.walk(library):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(place, name), library)
            if not name.endswith((".h", ".cc", ".cu")) or path.startswith("store/"):
                continue
            with open(os.path.join(library, path), encoding="utf-8") as file:
                lines = [number for number, line in enumerate(file, 1) if OPENS.search(line.split("//")[0])]
            yield path, lines


def check_the_check():
    """The rule itself, on lines that open files and lines that do not."""
    for line in ("std::ifstream file(path);", "  const int fd = open(path.c_str(), O_RDONLY);", "FILE* f = fopen(name, mode);",
                 "int x = open(absl::StrCat(a, b).c_str(), O_RDONLY | O_CLOEXEC);", "std::filesystem::remove(path, error);",
                 "fs::create_directories(folder);", "  unlink(path);"):
        assert OPENS.search(line), line
    for line in ("file.open()", "opened = open(check);", "bool open() const;", "std::filesystem::path name;", "writer.unlink(x);"):
        assert not OPENS.search(line), line


def main():
    check_the_check()
    found = dict(offenders())
    errors = [f"libdistill/{path}:{line}: opens files by itself; store/ does (files.h, durable_files.h, file_writer.h)"
              for path, lines in found.items() if path not in ALLOWED for line in lines]
    errors += [f"libdistill/{path} opens no file any more: take it from the list" for path in ALLOWED if not found.get(path)]
    print("\n".join(errors) or "files are opened by store/ alone")
    sys.exit(bool(errors))


main()
