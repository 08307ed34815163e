"""bench/run writes one JSON object for each case, unit and peer, with every key, and verified figures above zero."""
import json
import os
import subprocess
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEYS = ["bench", "case", "unit", "ours", "peer_name", "peer", "ratio", "limit"]

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "results.json")
    subprocess.run([f"{REPO}/bench/run", "allreduce", "--quick", "--json", path], check=True)
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
assert results, "no result"
for result in results:
    assert list(result) == KEYS, result
    assert result["bench"] == "allreduce" and result["ours"] > 0 and result["limit"] > 0, result
    assert result["peer_name"] is None and result["peer"] is None and result["ratio"] is None, result
cases = [(result["case"], result["unit"], result["peer_name"]) for result in results]
assert len(set(cases)) == len(cases), f"a case twice: {cases}"
for kind in ("plain", "registered"):
    assert f"shm/2/4194304/{kind}" in {case for case, _, _ in cases}, cases
print(f"{len(results)} results")
