#!/usr/bin/env python3
"""Runs a program as one rank on each of several emulated hosts (tests/support/hosts.py), and prints what rank 0 says.

  bench/on_hosts.py COUNT RATE PROGRAM ARGUMENT...        RATE as tc has it: 4gbit

Exit code 77, and the reason, where network namespaces are not allowed.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
import hosts


def main():
    count, rate, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    hosts.enter()
    hosts.up(count, rate)
    ranks = [hosts.start(rank, command, environment) for rank, environment in enumerate(hosts.ranks(count, 29530))]
    try:
        for line in ranks[0].stdout:
            print(line, end="", flush=True)
        for rank, process in enumerate(ranks):
            said = process.communicate(timeout=60)[0]
            if process.returncode != 0:
                sys.exit(f"error: rank {rank} ended with exit code {process.returncode}: {said}")
    finally:
        for process in ranks:
            process.kill()


main()
