#!/usr/bin/env python3
"""Fails when a prompt of a held-out file occurs in a training file.

    examples/llm/check_held_out.py runs/quickstart/data/held_out.jsonl runs/quickstart/data/train.jsonl [MORE...]
"""
import argparse
import json
import sys


def prompts(path):
    """Every user turn of a file of chats, and the line that it stands on."""
    with open(path, encoding="utf-8") as file:
        for line, text in enumerate(file, 1):
            for message in json.loads(text)["messages"]:
                if message["role"] == "user":
                    yield " ".join(message["content"].split()).lower(), line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("held_out", help="file of held-out chats")
    parser.add_argument("training", nargs="+", help="files of training chats")
    parser.add_argument("--at-least", type=int, default=500, help="fewest different held-out prompts (%(default)s)")
    arguments = parser.parse_args()

    held_out = dict(prompts(arguments.held_out))
    errors = []
    if len(held_out) < arguments.at_least:
        errors.append(f"{arguments.held_out}: {len(held_out)} different prompts, {arguments.at_least} are wanted")
    for path in arguments.training:
        for prompt, line in prompts(path):
            if prompt in held_out:
                errors.append(f"{path}:{line}: held out in line {held_out[prompt]} of {arguments.held_out}: {prompt}")
    print("\n".join(errors) or f"none of {len(held_out)} held-out prompts occurs in {', '.join(arguments.training)}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
