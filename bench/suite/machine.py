"""What a run of benchmarks was made on, and of."""
import datetime
import json
import os
import re
import subprocess

from suite.programs import REPO, dependencies


def said(*command):
    """The first line of a program's output; "" where there is no such program."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=REPO)
    except OSError:
        return ""
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""


def instructions(flags):
    """The kind of CPU that tables go by."""
    if "amx_bf16" in flags:
        return "AMX"
    if "avx512f" in flags:
        return "AVX-512 with bfloat16" if "avx512_bf16" in flags else "AVX-512"
    return "AVX2" if "avx2" in flags else "neither AVX2 nor AVX-512"


PACKAGES = ("torch", "transformers", "trl", "liger-kernel")


def versions():
    """Of the peers and of what we stand on; what is not here is left out."""
    script = ("import importlib.metadata as m, json, sys\n"
              "names = {d.metadata['Name'].replace('_', '-'): d.version for d in m.distributions()}\n"
              "print(json.dumps({name: names[name] for name in sys.argv[1:] if name in names}))")
    python = os.path.join(dependencies(), "peers", "bin", "python")
    found = json.loads(said(python, "-c", script, *PACKAGES) or "{}")
    for name, text in (("Open MPI", said("mpirun", "--version")), ("gcc", said("gcc", "-dumpfullversion")),
                       ("Gloo of Debian", said("dpkg-query", "-W", "-f", "${Version}", "libgloo-dev")),
                       ("libfabric of Debian", said("dpkg-query", "-W", "-f", "${Version}", "libfabric-dev"))):
        if text:
            found[name] = text.split()[-1]
    return found


def description():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = file.read()
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+)", file.read())[1]) / 2**20
    changed = said("git", "status", "--porcelain", "--untracked-files=no")
    return {"date": datetime.date.today().isoformat(),
            "revision": said("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
            "cpu": re.search(r"model name\s*: (.*)", cpu)[1], "cores": len(os.sched_getaffinity(0)),
            "instructions": instructions(re.search(r"flags\s*: (.*)", cpu)[1].split()), "memory_gib": round(memory, 1),
            "gpu": said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or None,
            "kernel": os.uname().release, "versions": versions()}
