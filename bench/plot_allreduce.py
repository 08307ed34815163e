#!/usr/bin/env python3
"""Draws what `bench/run allreduce --json FILE` measured: time and bus bandwidth against size, ours, the peers' and the
limit; one row of plots for each place and number of ranks.

    bench/plot_allreduce.py FILE OUT.png

Needs matplotlib.
"""
import json
import math
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

LOOKS = {"registered": ("#1b9e77", "o-"), "plain": ("#7570b3", "o-"), "openmpi": ("#d95f02", "s--"),
         "gloo": ("#e7298a", "s--"), "limit": ("#7f7f7f", ":")}


def read(path):
    """{(place, layout, ranks): {line: {bytes: microseconds}}}"""
    found = defaultdict(lambda: defaultdict(dict))
    with open(path, encoding="utf-8") as file:
        for result in map(json.loads, file):
            if result.get("bench") != "allreduce":
                continue
            place, layout, size, kind = result["case"].split("/")
            size, ranks = int(size), math.prod(map(int, layout.split("x")))
            # GB/s of bus bandwidth to microseconds and back: both are 2 (n-1)/n * size over the other.
            moved = size / 1e3 * 2 * (ranks - 1) / ranks
            microseconds = (lambda value: value) if result["unit"] == "us" else (lambda value: moved / value)
            lines = found[place, layout, ranks]
            for name, value in ((kind, result["ours"]), (result["peer_name"], result["peer"]), ("limit", result["limit"])):
                if name and value:
                    lines[name][size] = microseconds(value)
    return found


def draw(axes, place, layout, ranks, lines):
    time, bandwidth = axes
    for name in sorted(lines, key=list(LOOKS).index):
        colour, look = LOOKS[name]
        sizes = sorted(lines[name])
        times = [lines[name][size] for size in sizes]
        rates = [size / 1e3 * 2 * (ranks - 1) / ranks / t for size, t in zip(sizes, times)]
        time.loglog(sizes, times, look, color=colour, label=name, markersize=3, base=2)
        bandwidth.semilogx(sizes, rates, look, color=colour, label=name, markersize=3, base=2)
    time.set(title=f"{place}, {layout} ranks", xlabel="bytes", ylabel="microseconds, median")
    bandwidth.set(title="bus bandwidth", xlabel="bytes", ylabel="GB/s", ylim=(0, None))
    time.legend(frameon=False, fontsize=8)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = read(sys.argv[1])
    if not found:
        sys.exit(f"error: {sys.argv[1]} has no line of the allreduce benchmark")
    figure, rows = plt.subplots(len(found), 2, figsize=(10, 3.6 * len(found)), squeeze=False)
    for axes, (where, lines) in zip(rows, sorted(found.items())):
        draw(axes, *where, lines)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
