#!/usr/bin/env python3
"""Draws what `bench/run collectives --json FILE` measured: time against size. For each place two plots: all-reduce by
algorithm, and every operation as it is chosen.

    bench/plot_collectives.py FILE OUT.png

Needs matplotlib.
"""
import json
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)


def read(path):
    """{place: {(operation, algorithm): {bytes: (microseconds, those of the limit)}}}"""
    found = defaultdict(lambda: defaultdict(dict))
    with open(path, encoding="utf-8") as file:
        for result in map(json.loads, file):
            if result.get("bench") == "collectives":
                where, layout, operation, algorithm, size = result["case"].split("/")
                found[f"{where}, {layout} ranks"][operation, algorithm][int(size)] = result["ours"], result["limit"]
    return found


def draw(axes, title, lines):
    """`lines`: {name: {bytes: microseconds}}; one without sizes is a level."""
    if not lines:
        axes.set_axis_off()
        return
    for name, times in lines.items():
        sizes = sorted(times)
        if sizes == [0]:
            axes.axhline(times[0], linestyle=":", color="gray", label=name)
        else:
            look = "k--" if name == "limit" else "o-"
            axes.loglog(sizes, [times[size] for size in sizes], look, label=name, markersize=3, base=2)
    axes.set_yscale("log", base=10)
    axes.set(title=title, xlabel="bytes", ylabel="microseconds, median")
    axes.legend(frameon=False, fontsize=7)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = read(sys.argv[1])
    if not found:
        sys.exit(f"error: {sys.argv[1]} has no line of the collectives benchmark")
    figure, rows = plt.subplots(len(found), 2, figsize=(10, 4 * len(found)), squeeze=False)
    for (left, right), (place, cases) in zip(rows, sorted(found.items())):
        times = {case: {size: pair[0] for size, pair in sizes.items()} for case, sizes in cases.items()}
        by_algorithm = {case[1]: line for case, line in times.items() if case[0] == "all-reduce"}
        limit = {size: pair[1] for case, sizes in cases.items() if case[0] == "all-reduce"
                 for size, pair in sizes.items() if pair[1]}
        if limit:
            by_algorithm["limit"] = limit
        draw(left, f"{place}: all-reduce by algorithm", by_algorithm)
        draw(right, f"{place}: operations", {case[0]: line for case, line in times.items() if case[1] == "auto"})
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=80)


if __name__ == "__main__":
    main()
