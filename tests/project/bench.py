"""bench/run writes one JSON object for each case, unit and peer, with every key, and verified figures above zero; the
programs of the longer benchmarks run through on small sizes."""
import json
import os
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{REPO}/bench")
from suite import allreduce, net, rounds  # noqa: E402 (the path comes first)

KEYS = ["command", "bench", "case", "unit", "ours", "peer_name", "peer", "ratio", "limit", "ours_range", "peer_range"]


def results_of(name, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        subprocess.run([f"{REPO}/bench/run", name, "--quick", *flags, "--json", path], check=True)
        with open(path, encoding="utf-8") as file:
            results = [json.loads(line) for line in file]
    assert results, "no result"
    for result in results:
        assert list(result) == KEYS, result
        assert result["bench"] == name and result["ours"] > 0, result
        assert name == "collectives" or result["limit"] > 0, result
        assert result["ours_range"][0] <= result["ours"] <= result["ours_range"][1], result
        assert result["command"] == f"bench/run {name} --quick {' '.join(flags)}".strip(), result
        assert result["peer_name"] is None and result["peer"] is None and result["ratio"] is None, result
    cases = [(result["case"], result["unit"], result["peer_name"]) for result in results]
    assert len(set(cases)) == len(cases), f"a case twice: {cases}"
    print(f"{name}: {len(results)} results")
    return {case for case, _, _ in cases}


def check_rounds():
    """In turn, every other round backwards; medians, and of what bounds ours the best."""
    order = []

    def contestant(name, values):
        def start():
            order.append(name)
            return {"a": {"ms": values[order.count(name) - 1], "limit_ms": values[order.count(name) - 1] / 2}}
        return start

    found = rounds.in_rounds({"ours": contestant("ours", [4, 2, 8]), "peer": contestant("peer", [8, 10, 12])}, 3)
    assert order == ["ours", "peer", "peer", "ours", "ours", "peer"], order
    result, = rounds.lines("b", "a", "ms", found, "ms", "limit_ms")
    assert (result["ours"], result["peer"], result["ratio"], result["limit"]) == (4, 10, 2.5, 1), result
    assert (result["ours_range"], result["peer_range"]) == ([2, 8], [8, 12]), result
    rate = rounds.line("b", "a", "tokens/s", [10, 30, 20], [40, 50], "peer", [10])
    assert (rate["ours"], rate["ratio"], rate["limit"]) == (20, 2, 50), rate
    # A link's burst is free, and what fits into it has no limit that is known.
    assert net.least_us(1e6 + net.BURST, 0.125, 1) == 8000 and net.least_us(net.BURST, 0.125, 1) == 0


def check_peers():
    """The peers that are called from C++ check their sums themselves."""
    sizes = {"SIZES": "1024,16384"}
    found = {"openmpi": allreduce.times(allreduce.run(allreduce.mpirun(2, f"{BIN}/peer_mpi_allreduce"), **sizes))}
    if os.path.exists(f"{BIN}/peer_gloo_allreduce"):
        found["gloo"] = allreduce.times(allreduce.small_gloo(2, sizes))
    else:
        print("Gloo is not called from C++: scripts/setup --peers installs it")
    for name, times in found.items():
        assert sorted(times) == [1024, 16384] and all(figures["us"] > 0 for figures in times.values()), (name, times)


BIN = f"{REPO}/build/bin"
check_rounds()
check_peers()
cases = results_of("allreduce")
for kind in ("plain", "registered"):
    assert f"shm/2/4194304/{kind}" in cases, cases
for kind, precision in ("", "fp32"), ("-bf16", "bf16"):
    cases = results_of("collectives", "--precision", precision, "--ranks", "3")
    operations = "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "send"
    wanted = {f"shm/3/{operation}{kind}/auto/{size}" for operation in operations for size in (1024, 262144)}
    assert cases == wanted | {f"shm/3/barrier{kind}/auto/0"}, cases

assert results_of("simulate") == {f"{cluster}/{hosts}x8/{operation}/1048576" for cluster in ("p4d", "p5")
                                  for hosts, operation in ((2, "all-reduce"), (64, "reduce-scatter"), (64, "all-gather"),
                                                           (64, "broadcast"), (64, "reduce"))}

for program, *options in (["bench_overlap", "--rounds", "1", "--rows", "1"],
                          ["bench_distill_loss", "--tokens", "64", "--vocabulary", "1000"],
                          ["bench_optimizer", "--elements", "1000000"],
                          ["bench_products", "64x32x48*3", "6@16x8x16:forward"]):
    ranks = [f"{BIN}/distillrun", "-np", "2"] if program == "bench_overlap" else []
    said = subprocess.run([*ranks, f"{BIN}/{program}", *options], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
    figures = [json.loads(line[5:]) for line in said.splitlines() if line.startswith("JSON ")]
    assert figures, f"{program} printed no figures: {said}"
    times = {key: value for figure in figures for key, value in figure.items() if key.endswith("_ms")}
    times.pop("waited_ms", None)  # which may be none
    assert times and all(value > 0 for value in times.values()), figures
    print(f"{program}: ran through")
