"""Two emulated hosts, two ranks on each, joined in two levels: a rank is killed, one is stopped, and the link is cut
without a reset. Every survivor, on both hosts, names a lost rank by its rank in the job, in time, with operation, number
and step; also where it is rank 0, by which they met.

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
RANKS = 4


def start(program, rank, port):
    environment = {"DISTILL_RANK": str(rank), "DISTILL_WORLD_SIZE": str(RANKS), "DISTILL_LOCAL_RANK": str(rank % 2),
                   "DISTILL_LOCAL_SIZE": "2", "DISTILL_RENDEZVOUS": f"{hosts.address(0)}:{port}",
                   "DISTILL_JOB_SECRET": "of the test"}
    return hosts.start(rank // 2, [program, "[two hosts]"], environment)


def check(program, what, port, lose, lost_by_rank):
    """`lost_by_rank`: for each survivor, the ranks of which it may name one."""
    processes = [start(program, rank, port) for rank in range(RANKS)]
    try:
        for rank, process in enumerate(processes):
            ready, said = hosts.await_ready(rank, process)
            if ready != "ready over shm+fabric" or rank == 0 and PROVIDER not in said:
                sys.exit(f"FAILED: {what}: rank {rank} is {ready}, not over shm+fabric, or not over tcp:\n{said}")
        time.sleep(0.3)  # the ranks are amid one all-reduce after another
        lose(processes)
        then = time.monotonic()
        for rank, lost in lost_by_rank.items():
            said = processes[rank].communicate(timeout=HEARTBEAT_SECONDS + 15)[0]
            took = time.monotonic() - then
            print(f"{what}: rank {rank} after {took:.1f} s: {said.strip()}")
            one_of = "|".join(f"rank {other} on h{other // 2}" for other in lost)
            wanted = f"all-reduce number [0-9]+ over shm\\+fabric failed on rank {rank} on h{rank // 2} of 4 ranks \\(step [0-9]+\\): .*"
            if (processes[rank].returncode != 0 or took > HEARTBEAT_SECONDS + 8
                    or not re.search(f"{wanted}({one_of}) was lost", said, re.DOTALL)):
                sys.exit(f"FAILED: {what}: rank {rank} ended with {processes[rank].returncode} after {took:.1f} s")
    finally:
        for process in processes:
            process.kill()


def main():
    hosts.enter()
    hosts.up(2)
    program = os.path.abspath(sys.argv[1])
    check(program, "killed", 29521, lambda ranks: ranks[3].send_signal(signal.SIGKILL), {0: [3], 1: [3], 2: [3]})
    check(program, "rank 0 killed", 29524, lambda ranks: ranks[0].send_signal(signal.SIGKILL), {1: [0], 2: [0], 3: [0]})
    check(program, "stopped", 29522, lambda ranks: ranks[1].send_signal(signal.SIGSTOP), {0: [1], 2: [1], 3: [1]})
    check(program, "cut off", 29523, lambda _: hosts.cut(1), {0: [2, 3], 1: [2, 3], 2: [0, 1], 3: [0, 1]})


main()
