"""Where libfabric cannot be loaded, ranks of one host work as ever, and the fabric says what is missing.

  no_fabric.py DISTILLRUN BENCH_START
"""
import os
import subprocess
import sys
import tempfile

distillrun, program = sys.argv[1:]


def job(backend, folder):
    return subprocess.run([distillrun, "-np", "2", program, "--backend", backend], text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "LD_LIBRARY_PATH": folder})


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "libfabric.so.1"), "w", encoding="utf-8"):
        pass  # found first, and no library
    alone = job("shm", folder)
    assert alone.returncode == 0, alone.stdout
    joined = job("fabric", folder)
    assert joined.returncode != 0, joined.stdout
    for words in "no fabric: ", "libfabric.so.1: file too short", "install libfabric":
        assert words in joined.stdout, joined.stdout
print("shared memory works without libfabric; the fabric says what it lacks")
