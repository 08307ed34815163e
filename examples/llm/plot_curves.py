#!/usr/bin/env python3
"""Draws what the quickstart's two runs did, step by step, and how good the four models are in the end.

    examples/llm/plot_curves.py --labels-only runs/quickstart/labels_only --distilled runs/quickstart/distilled \\
        --figures runs/quickstart/summary.json --out runs/quickstart/curves.png

Reads metrics.jsonl of both runs and the figures that evaluate_llm wrote. Needs matplotlib.
"""
import argparse
import json
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

COLOURS = {"teacher": "#7f7f7f", "before": "#c7c7c7", "labels_only": "#d95f02", "distilled": "#1b9e77"}
NAMES = {"teacher": "teacher", "before": "student, before", "labels_only": "labels only", "distilled": "distilled"}


def curve(folder, key):
    """Steps and values of all records of a run that have `key`."""
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    points = [(record["step"], record[key]) for record in records if record.get(key) is not None]
    return [step for step, _ in points], [value for _, value in points]


def smooth(values, weight=0.8):
    """The running mean in which each older value weighs `weight` of the next."""
    result, total, norm = [], 0.0, 0.0
    for value in values:
        total, norm = weight * total + value, weight * norm + 1
        result.append(total / norm)
    return result


def draw_curves(training, held_out, runs):
    for name, folder in runs.items():
        steps, values = curve(folder, "ce")
        training.plot(steps, values, color=COLOURS[name], alpha=0.2, linewidth=0.8)
        training.plot(steps, smooth(values), color=COLOURS[name], label=f"{NAMES[name]}: cross-entropy")
        held_out.plot(*curve(folder, "eval_ce"), "o-", color=COLOURS[name], markersize=3, label=NAMES[name])
    steps, values = curve(runs["distilled"], "kl")
    training.plot(steps, smooth(values), ":", color=COLOURS["distilled"], label="distilled: T² KL to the teacher")
    training.set(title="training batches (some labels wrong)", xlabel="step", ylabel="nats per assistant token")
    held_out.set(title="held-out prompts", xlabel="step", ylabel="cross-entropy, nats per assistant token")
    for axes in (training, held_out):
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8)


def draw_bars(axes, figures, key, title, text):
    names = [name for name in NAMES if name in figures]
    bars = axes.barh([NAMES[name] for name in names], [figures[name][key] for name in names],
                     color=[COLOURS[name] for name in names])
    axes.bar_label(bars, [text.format(figures[name][key]) for name in names], padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_title(title)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels-only", required=True, help="output folder of the run on labels alone")
    parser.add_argument("--distilled", required=True, help="output folder of the distillation")
    parser.add_argument("--figures", required=True, help="what evaluate_llm --json wrote")
    parser.add_argument("--out", required=True, help="the picture (.png)")
    arguments = parser.parse_args()
    with open(arguments.figures, encoding="utf-8") as file:
        figures = json.load(file)

    figure, ((training, held_out), (exact, divergence)) = plt.subplots(
        2, 2, figsize=(11, 7), gridspec_kw={"height_ratios": [2, 1]}, constrained_layout=True)
    draw_curves(training, held_out, {"labels_only": arguments.labels_only, "distilled": arguments.distilled})
    draw_bars(exact, figures, "exact_match", "exact match on held-out prompts (more is better)", "{:.3f}")
    draw_bars(divergence, figures, "kl", "KL(teacher || model), nats per token (less is better)", "{:.3f}")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(arguments.out, dpi=120)
    print(arguments.out)


if __name__ == "__main__":
    main()
