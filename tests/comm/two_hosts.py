"""Two emulated hosts, a rank on each, over the fabric. A rank that is killed (rank 0, by which they met, too), one that is
stopped, and a link that is cut without a reset: whoever is left names the other one in time, with operation, number and
step.

Skipped, with the reason, where network namespaces are not allowed."""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hosts

HEARTBEAT_SECONDS = 2  # as in two_hosts_test.cc
PROVIDER = "fabric: libfabric's provider tcp;ofi_rxm"  # which rank 0 logs


def start(program, rank, port):
    return hosts.start(rank, [program, "[two hosts]"], hosts.ranks(2, port)[rank])


def check_lost(program, port, what, lose, survivors, why, limit):
    """`lose` takes the two ranks' processes and loses rank 1; `survivors` then name the other one, in time."""
    processes = [start(program, rank, port) for rank in (0, 1)]
    try:
        for rank, process in enumerate(processes):
            ready, said = hosts.await_ready(rank, process)
            if ready != "ready over fabric" or rank == 0 and PROVIDER not in said:
                sys.exit(f"FAILED: rank {rank} is {ready}, not over fabric, or not over tcp:\n{said}")
        lose(processes)
        lost = time.monotonic()
        for rank in survivors:
            said = processes[rank].communicate(timeout=limit + 10)[0]
            took = time.monotonic() - lost
            print(f"{what}: rank {rank} over the fabric after {took:.1f} s: {said}")
            # Call number 1 was the barrier, and each step makes one call.
            call = re.search(f"all-reduce number ([0-9]+) over fabric failed on rank {rank} on h{rank} of 2 ranks "
                             r"\(step ([0-9]+)\): .*" + f"rank {1 - rank} on h{1 - rank} was lost{why}", said)
            in_step = call and int(call[1]) == int(call[2]) + 1
            if processes[rank].returncode != 0 or not in_step or took > limit:
                sys.exit(f"FAILED: {what}: rank {rank} ended with {processes[rank].returncode} after {took:.1f} s")
    finally:
        for process in processes:
            process.kill()
            process.wait()


hosts.enter()
hosts.up(2)
rank_program = os.path.abspath(sys.argv[1])
silent = f": nothing heard from it for {HEARTBEAT_SECONDS}s"
check_lost(rank_program, 29517, "SIGKILL", lambda ranks: ranks[1].kill(), [0], "", 5)
check_lost(rank_program, 29520, "SIGKILL of rank 0", lambda ranks: ranks[0].kill(), [1], "", 5)
check_lost(rank_program, 29518, "SIGSTOP", lambda ranks: ranks[1].send_signal(signal.SIGSTOP), [0], silent,
           HEARTBEAT_SECONDS + 5)
check_lost(rank_program, 29519, "a link that is cut", lambda ranks: hosts.cut(1), [0, 1], silent, HEARTBEAT_SECONDS + 5)
