"""A job grows with its ranks as docs/collectives.md says: on emulated hosts it meets, sums, splits and ends with few and with many
ranks, and what a rank takes of descriptors, memory and messages stays within the bounds of that page. Then a rank of many is killed in
the middle of an all-reduce: all others name it, and end, in time.

Skipped, with the reason, where network namespaces are not allowed."""
import os
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{REPO}/bench")
from suite import scale  # noqa: E402 (the path comes first)

FEW, MANY = (2, 8), (4, 16)
PORT = 29680
NAMED_SECONDS = 30  # the library's promise
# A rank's memory: four endpoints of 6 MB, the program, its buffers; and for each rank of the job, its name and addresses.
MEMORY, MEMORY_PER_RANK = 48 << 20, 32 << 10
# What comes from where ranks meet: each exchange brings a card of every rank; beats come for as long as the job takes.
MEETING, MEETING_PER_RANK = 32 << 10, 2 << 10


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def fixed(said):
    """Descriptors that are there whatever the number of ranks."""
    return said["descriptors"] - sum(said[kind] for kind in ("at_meeting", "of_parts", "of_fabric", "processes", "memories"))


def check_rank(said, count, per_host):
    """Against what one rank of so many may take."""
    ranks = count * per_host
    who = f"rank {said['rank']} of {count}x{per_host}"
    check(said["at_meeting"] == (ranks - 1 if said["rank"] == 0 else 1), f"{who} has {said['at_meeting']} connections to the meeting")
    most = scale.most_connections(count, per_host) + scale.most_connections(count, per_host // 2)
    check(said["of_fabric"] <= most, f"{who} has {said['of_fabric']} connections over the fabric, and not {most} at most")
    most = scale.most_descriptors(said, count, per_host)
    check(said["descriptors"] <= most, f"{who} has {said['descriptors']} descriptors, and not {most} at most: {said}")
    most = MEMORY + ranks * MEMORY_PER_RANK
    check(said["memory"] <= most, f"{who} takes {said['memory']} bytes, and not {most} at most")
    most = scale.most_messages(count, per_host)
    for step, took in said["steps"].items():
        check(took["messages"] <= most[step], f"{who} sent {took['messages']} messages in the step '{step}', and not {most[step]} at most")
    met = said["steps"]["meeting"]["messages"]  # these are counted at all
    check(met == most["meeting"], f"{who} sent {met} messages to meet, and not {most['meeting']}")
    to_all = ranks if said["rank"] == 0 else 1  # rank 0 sends to each what each gets
    most = to_all * (MEETING + ranks * MEETING_PER_RANK)
    both = said["meeting_bytes_sent"] + said["meeting_bytes_received"]
    check(both <= most, f"{who} moved {both} bytes to and from the meeting, and not {most} at most")


def measure(count, per_host, port):
    found, seconds = scale.measure(count, per_host, port)
    print(f"{count}x{per_host}: met, summed, split and ended in {seconds:.1f} s")
    for said in found.values():
        check_rank(said, count, per_host)
    return found


scale.hosts.enter()
scale.hosts.up(max(FEW[0], MANY[0]))
few = measure(*FEW, PORT)
many = measure(*MANY, PORT + 1)
scale.table({"few": few, "many": many})
scale.times({"few": few, "many": many})
kinds = sorted({fixed(said) for found in (few, many) for said in found.values()})
print(f"beside what is counted, ranks of small and large jobs have {kinds} descriptors")
check(kinds[-1] <= scale.FIXED_DESCRIPTORS, f"these are more than {scale.FIXED_DESCRIPTORS}")
named, ended = scale.lose_one(*MANY, PORT + 2)
print(f"a rank is killed: all {MANY[0] * MANY[1] - 1} others name it within {named:.1f} s, and have ended after {ended:.1f} s")
check(named <= NAMED_SECONDS and ended <= NAMED_SECONDS, f"that took longer than {NAMED_SECONDS} s")
