"""What the peers of bench/suite/recipes.py share: their options, and the line of results.

A job is a folder: job.json, the model's first weights, and data that make one batch, so that every step of any program has the same rows.
"""
import argparse
import json
import os

import torch


def options_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", metavar="FOLDER")
    parser.add_argument("--make", action="store_true", help="write the first weights, or the data, and end")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--no-dropout", action="store_true", help="for the comparison of losses")
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with open(os.path.join(options.job, "job.json"), encoding="utf-8") as file:
        return options, json.load(file)


def peak_gib():
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 2**20


def tell(losses, ends):
    """Times from the end of the first step on, which no program is judged by."""
    seconds = [after - before for before, after in zip(ends, ends[1:])]
    print("JSON " + json.dumps({"losses": losses, "step_seconds": seconds, "memory_gib": peak_gib()}), flush=True)
