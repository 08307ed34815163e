"""Builds and runs the programs that the benchmarks time: ours, and the peers'."""
import json
import os
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(REPO, "build", "bin")
PEERS = os.path.join(REPO, "bench", "peers")
# One core a rank, for libdistill and for its peers.
ONE_CORE = {"OMP_NUM_THREADS": "1"}
LOOPBACK = {**ONE_CORE, "GLOO_SOCKET_IFNAME": "lo"}


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def echoed(process, what):
    """Its lines, printed while they come; a failure ends the benchmark."""
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if not line.startswith("JSON "):
            print(line, end="", flush=True)
    if process.wait() != 0:
        sys.exit(f"error: {what} ended with exit code {process.returncode}")
    return lines


def run(command, **environment):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPO, env={**os.environ, **environment})
    return echoed(process, " ".join(command))


def own_results(lines):
    return [json.loads(line[5:]) for line in lines if line.startswith("JSON ")]


def dependencies(*flags):
    """The folder that scripts/setup prints, with what it is told to put there."""
    setup = subprocess.run([f"{REPO}/scripts/setup", *flags], stdout=subprocess.PIPE, text=True)
    if setup.returncode != 0:
        sys.exit(setup.returncode)
    return setup.stdout.strip()


def build(*programs, peers=False):
    """The folder of the peers' Python."""
    folder = dependencies(*(["--peers"] if peers else []))
    if peers or not os.path.exists(f"{REPO}/build/build.ninja"):  # what the peers need may just have been installed
        subprocess.run(["cmake", "--preset", "release"], cwd=REPO, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", *programs, "distillrun"], cwd=REPO, check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.join(folder, "peers", "bin")


def distillrun(ranks, *command):
    return [f"{BIN}/distillrun", "-np", str(ranks), *command]


def share_cores(ranks):
    """Where ranks share cores, Open MPI's yield as ours do."""
    return ["--mca", "mpi_yield_when_idle", "1"] if ranks > len(os.sched_getaffinity(0)) else []


def mpirun(ranks, *command):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", *share_cores(ranks), "-n", str(ranks), *command]


def torchrun(python, ranks, *command):
    return [f"{python}/python", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *command]
