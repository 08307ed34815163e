#!/usr/bin/env python3
"""Draws what `bench/run simulate --json FILE` predicted: the share of a host's cards against size, all-reduce by number of
hosts, and the operations on 64 hosts.

    bench/plot_simulate.py FILE OUT.png

Needs matplotlib.
"""
import json
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

NAMES = {"p4d": "p4d.24xlarge (400 Gbit/s a host)", "p5": "p5.48xlarge (3,200 Gbit/s a host)"}


def read(path):
    """{cluster: {(operation, hosts): {bytes: share}}}"""
    found = defaultdict(lambda: defaultdict(dict))
    with open(path, encoding="utf-8") as file:
        for result in map(json.loads, file):
            if result.get("bench") == "simulate":
                cluster, layout, operation, size = result["case"].split("/")
                found[cluster][operation, int(layout.split("x")[0])][int(size)] = result["limit"] / result["ours"]
    return found


def draw(axes, title, lines):
    for name, shares in lines.items():
        sizes = sorted(shares)
        axes.plot(sizes, [shares[size] for size in sizes], "o-", label=name, markersize=3)
    axes.axhline(0.85, linestyle=":", color="gray")
    axes.set_xscale("log", base=2)
    axes.set(title=title, xlabel="bytes of the result", ylabel="share of a host's cards, predicted", ylim=(0, 1))
    axes.legend(frameon=False, fontsize=7)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = read(sys.argv[1])
    if not found:
        sys.exit(f"error: {sys.argv[1]} has no line of the simulate benchmark")
    figure, rows = plt.subplots(len(found), 2, figsize=(10, 4 * len(found)), squeeze=False)
    for (left, right), (cluster, cases) in zip(rows, sorted(found.items())):
        draw(left, f"{NAMES[cluster]}: all-reduce",
             {f"{hosts} hosts": line for (operation, hosts), line in sorted(cases.items()) if operation == "all-reduce"})
        draw(right, f"{cluster}, 64 hosts: operations",
             {operation: line for (operation, hosts), line in cases.items() if hosts == 64})
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=80)


if __name__ == "__main__":
    main()
