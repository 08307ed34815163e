"""Emulated hosts with two interfaces each: the fabric uses both, half of the bytes on each, or as many as it is told,
for messages and for writes into the next rank's memory.

Skipped, with the reason, where network namespaces are not allowed."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hosts

COUNT = 3
BYTES = 2 * (COUNT - 1) / COUNT * (4 << 20) * 8  # that a rank sends in the large sum of two_hosts_test.cc


def sent(host, interface):
    said = subprocess.run([*hosts.inside(host), "cat", f"/sys/class/net/eth{interface}/statistics/tx_bytes"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return int(said)


def check(program, port, most_rails, wanted, writes="0"):
    """`wanted`: the rails that rank 0 says it uses. `writes`: of DISTILL_FABRIC_WRITES."""
    before = [[sent(host, interface) for interface in (0, 1)] for host in range(COUNT)]
    environments = hosts.ranks(COUNT, port, DISTILL_FABRIC_WRITES=writes,
                               **({"DISTILL_FABRIC_RAILS": str(most_rails)} if most_rails else {}))
    processes = [hosts.start(rank, [program, "[two rails]"], environments[rank]) for rank in range(COUNT)]
    try:
        said = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    print(said[0])
    for rank, process in enumerate(processes):
        if process.returncode != 0 or "ready over fabric" not in said[rank]:
            sys.exit(f"FAILED: rank {rank} ended with {process.returncode}: {said[rank]}")
        written = [int(times) for times in re.search("written through each rail:(.*)", said[rank]).group(1).split()]
        if len(written) != (most_rails or 2) or any((times > 0) != (writes == "1") for times in written):
            sys.exit(f"FAILED: rank {rank} wrote {written} times through its rails")
    if f"fabric: libfabric's provider tcp;ofi_rxm, {wanted}" not in said[0]:
        sys.exit(f"FAILED: rank 0 does not say that it uses {wanted}")
    for host in range(COUNT):
        carried = [sent(host, interface) - before[host][interface] for interface in (0, 1)]
        print(f"h{host} sent {carried} bytes")
        shares = [1.0, 0.0] if most_rails == 1 else [0.5, 0.5]
        for interface, share in enumerate(shares):
            if not abs(carried[interface] / BYTES - share) < 0.1:
                sys.exit(f"FAILED: h{host} sent {carried[interface]} bytes through eth{interface}, of about {BYTES:.0f}")


hosts.enter()
hosts.up(COUNT, interfaces=2)
program = os.path.abspath(sys.argv[1])
check(program, 29518, None, "2 rails: 10.77.0.0/24, 10.77.1.0/24")
check(program, 29519, 1, "1 rail: 10.77.0.0/24")
check(program, 29520, None, "2 rails: 10.77.0.0/24, 10.77.1.0/24", writes="1")
