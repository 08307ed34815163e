"""A link between two hosts of a job is cut: distillrun returns, and nothing of the job is left on either host.

Skipped, with the reason, where network namespaces are not allowed or mpirun is not installed."""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hosts

LIMIT_SECONDS = 60  # Open MPI notices after 15 s; its own values would be 8 minutes
DISTILLRUN = os.path.join(os.environ["DISTILL_BUILD_DIR"], "bin", "distillrun")


def write_agent(path):
    """What mpirun calls instead of ssh: agent HOST COMMAND..."""
    with open(path, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nhost=$1; shift\nexec ' + " ".join(hosts.inside(1)[:4]) + ' sh -c "$*"\n')
    os.chmod(path, 0o755)


def is_up(name):
    return subprocess.run(["pgrep", "-f", f"sleep {name}$"], stdout=subprocess.DEVNULL).returncode == 0


def main():
    hosts.enter()
    if shutil.which("mpirun") is None:
        print("skipped: a job over several hosts starts through mpirun, which is not installed")
        sys.exit(hosts.SKIPPED)
    hosts.up(2)
    folder = "/run/cut"
    os.makedirs(folder)
    write_agent(f"{folder}/agent")
    asleep = str(100000 + os.getpid())
    process = hosts.start(0, [DISTILLRUN, "--mca", "plm_rsh_agent", f"{folder}/agent", "--oversubscribe", "-np", "2", "-H",
                              f"h0:1,{hosts.address(1)}:1", "sh", "-c",
                              f"echo > {folder}/up.$OMPI_COMM_WORLD_RANK; exec sleep {asleep}"], {})
    began = time.monotonic()
    while not all(os.path.exists(f"{folder}/up.{rank}") for rank in range(2)):
        if process.poll() is not None or time.monotonic() > began + 60:
            process.kill()
            sys.exit(f"FAILED: the job did not start:\n{process.communicate()[0]}")
        time.sleep(0.05)
    hosts.cut(1)
    began = time.monotonic()
    try:
        said = process.communicate(timeout=LIMIT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"FAILED: distillrun still runs {LIMIT_SECONDS} s after the link was cut")
    print(f"after {time.monotonic() - began:.1f} s, exit code {process.returncode}:\n{said}")
    if process.returncode == 0 or is_up(asleep):
        sys.exit("FAILED: a cut link is no failure, or a rank is left")
    print("ok: a cut link ends the job")


main()
