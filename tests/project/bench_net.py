"""bench/run between emulated hosts with a rank each, and with two each: every case over the fabric, or in two levels,
verified, with the rate of the link as its limit; and bench/run scale, with a rank that is killed.

Skipped, with the reason, where network namespaces are not allowed."""
import json
import os
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(layout, most, *flags):
    """`most`: the bus bandwidth in GB/s at a link's rate of a gigabit a second, by a stream that measures itself, and with what a
    link lets through at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        done = subprocess.run([f"{REPO}/bench/run", "allreduce", "--hosts", "2", *flags, "--link", "1gbit", "--quick",
                               "--json", path])
        if done.returncode != 0:
            sys.exit(done.returncode)
        with open(path, encoding="utf-8") as file:
            results = [json.loads(line) for line in file]
    for result in results:
        assert result["ours"] > 0, result
        if result["case"].endswith(("/4194304/plain", "/4194304/registered")):  # a burst is a small part of it
            assert 0 < result["limit"] < most, result
    cases = [result["case"] for result in results]
    wanted = [f"net-1gbit/{layout}/{size}/{kind}" for kind in ("plain", "registered") for size in (1024, 262144, 4194304)]
    assert sorted(cases) == sorted(wanted), cases
    print(f"{len(results)} results of {layout}")


def check_scale():
    """Every rank's figures, by what it is in the job, and every step's time."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        subprocess.run([f"{REPO}/bench/run", "scale", "--quick", "--kill", "--json", path], check=True)
        with open(path, encoding="utf-8") as file:
            results = {result["case"]: result for result in map(json.loads, file)}
    roles, figures = ("rank 0", "rank 1", "first of a host", "others"), ("memory", "descriptors", "messages", "rendezvous")
    steps = ("meeting", "all-reduce of 8 bytes", "first all-reduce", "all-reduce", "reduce-scatter", "split", "all-reduce in a part", "end",
             "all of it", "lost/named", "lost/ended")
    wanted = {f"2x2/{role}/{figure}" for role in roles for figure in figures} | {f"2x2/{step}" for step in steps}
    assert set(results) == wanted, set(results) ^ wanted
    assert all(result["ours"] > 0 for result in results.values()), results
    print(f"scale: {len(results)} results")


check("2", 0.134)
# A host of two ranks sends as much as a host of one; each of four ranks moves 1.5 times as much as each of two.
check("2x2", 1.5 * 0.134, "--per-host", "2")
check_scale()
