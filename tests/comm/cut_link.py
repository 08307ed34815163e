"""Two emulated hosts, a rank on each, and a link that is cut without a reset: both ranks name the other one in time.

Skipped, with the reason, where network namespaces are not allowed."""
import os
import re
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hosts

HEARTBEAT_SECONDS = 2  # as in two_hosts_test.cc


def start(program, rank):
    return hosts.start(rank, [program, "[two hosts]"], hosts.ranks(2, 29517)[rank])


def await_ready(rank, process):
    """What the rank says once it has finished its first call."""
    said = ""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not select.select([process.stdout], [], [], 1)[0]:
            continue
        piece = os.read(process.stdout.fileno(), 1 << 16).decode()  # not by line: what is buffered here select misses
        said += piece
        ready = re.search("^ready over .*$", said, re.MULTILINE)
        if ready:
            return ready[0]
        if not piece:
            break
    sys.exit(f"FAILED: rank {rank} never got ready:\n{said}")


def check_cut(program):
    processes = [start(program, rank) for rank in (0, 1)]
    try:
        for rank, process in enumerate(processes):
            ready = await_ready(rank, process)
            if ready != "ready over fabric":
                sys.exit(f"FAILED: rank {rank} is {ready}, not over fabric")
        hosts.cut(1)
        cut = time.monotonic()
        for rank, process in enumerate(processes):
            said = process.communicate(timeout=HEARTBEAT_SECONDS + 10)[0]
            took = time.monotonic() - cut
            print(f"rank {rank} after {took:.1f} s: {said}")
            wanted = f"rank {1 - rank} on h{1 - rank} was lost: nothing heard from it for {HEARTBEAT_SECONDS}s"
            if process.returncode != 0 or wanted not in said or took > HEARTBEAT_SECONDS + 5:
                sys.exit(f"FAILED: rank {rank} ended with {process.returncode} after {took:.1f} s")
    finally:
        for process in processes:
            process.kill()


hosts.enter()
hosts.up(2)
check_cut(os.path.abspath(sys.argv[1]))
