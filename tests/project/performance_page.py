"""docs/performance.md is what scripts/performance_page makes of docs/performance.json: one machine, one run, rounds."""
import json
import os
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALLER_IS_BETTER = ("us", "ms", "s", "GiB")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_line(line):
    least, greatest = line["ours_range"]
    assert least <= line["ours"] <= greatest, line
    if line["peer"]:
        assert line["peer_range"][0] <= line["peer"] <= line["peer_range"][1], line
        ratio = line["peer"] / line["ours"] if line["unit"] in SMALLER_IS_BETTER else line["ours"] / line["peer"]
        assert abs(ratio - line["ratio"]) < 1e-6 * ratio, line
    if line["limit"]:  # a limit is a limit: memory is counted by pages, bandwidth between hosts by a stream's noise
        share = line["limit"] / line["ours"] if line["unit"] in SMALLER_IS_BETTER else line["ours"] / line["limit"]
        assert share < 1.03, f"the limit is exceeded: {line}"


def main():
    first, *lines = map(json.loads, read(f"{REPO}/docs/performance.json").splitlines())
    assert first["machine"]["cpu"] and first["machine"]["versions"]["torch"], first
    lines = [line for line in lines if "machine" not in line]  # behind one stands what was measured later
    for line in lines:
        check_line(line)
    assert all("--rounds" in line["command"] for line in lines)
    benches = {line["bench"] for line in lines}
    assert benches == {"allreduce", "collectives", "distill_loss", "generate", "loader", "optimizer", "overlap", "recipes", "start", "train_step"}, benches
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{REPO}/scripts/performance_page", f"{REPO}/docs/performance.json", f"{folder}/page.md"], check=True)
        made = read(f"{folder}/page.md")
        if made != read(f"{REPO}/docs/performance.md"):
            sys.exit("docs/performance.md is not what scripts/performance_page docs/performance.json makes")
        lone = f"{folder}/lone.json"
        with open(lone, "w", encoding="utf-8") as file:
            file.write(json.dumps(lines[0]) + "\n")
        refused = subprocess.run([f"{REPO}/scripts/performance_page", lone, f"{folder}/none.md"], stderr=subprocess.PIPE, text=True)
        assert refused.returncode != 0 and "which machine" in refused.stderr, refused
    print(f"ok: {len(lines)} lines of one machine")


main()
