"""bench/run writes one JSON object for each case, unit and peer, with every key, and verified figures above zero; the
programs of the longer benchmarks run through on small sizes."""
import json
import os
import subprocess
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEYS = ["bench", "case", "unit", "ours", "peer_name", "peer", "ratio", "limit"]


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
        assert result["peer_name"] is None and result["peer"] is None and result["ratio"] is None, result
    cases = [(result["case"], result["unit"], result["peer_name"]) for result in results]
    assert len(set(cases)) == len(cases), f"a case twice: {cases}"
    print(f"{name}: {len(results)} results")
    return {case for case, _, _ in cases}


cases = results_of("allreduce")
for kind in ("plain", "registered"):
    assert f"shm/2/4194304/{kind}" in cases, cases
for kind, precision in ("", "fp32"), ("-bf16", "bf16"):
    cases = results_of("collectives", "--precision", precision, "--ranks", "3")
    operations = "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "send"
    wanted = {f"shm/3/{operation}{kind}/auto/{size}" for operation in operations for size in (1024, 262144)}
    assert cases == wanted | {f"shm/3/barrier{kind}/auto/0"}, cases

BIN = f"{REPO}/build/bin"
for program, *options in (["bench_overlap", "--rounds", "1", "--rows", "1"],
                          ["bench_distill_loss", "--tokens", "64", "--vocabulary", "1000", "--whole_logits"],
                          ["bench_optimizer", "--elements", "1000000"]):
    ranks = [f"{BIN}/distillrun", "-np", "2"] if program == "bench_overlap" else []
    said = subprocess.run([*ranks, f"{BIN}/{program}", *options], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
    figures = [json.loads(line[5:]) for line in said.splitlines() if line.startswith("JSON ")]
    assert figures, f"{program} printed no figures: {said}"
    times = {key: value for figure in figures for key, value in figure.items() if key.endswith("_ms")}
    times.pop("waited_ms", None)  # which may be none
    assert times and all(value > 0 for value in times.values()), figures
    print(f"{program}: ran through")
