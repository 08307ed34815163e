"""Every collective against size, and all-reduce by each of its algorithms, on one host or between emulated ones.

Used by bench/run. The limit is the time of the bytes that a host has to send at least, over a plain TCP stream; on one
host there is none to name here (bench/run allreduce has the sweep).
"""
import json


def sent(operation, hosts, per_host):
    """Of a size of 1: what the host that sends most has to send to others at least."""
    others = (hosts - 1) / hosts
    return {"all-reduce": 2 * others, "reduce-scatter": others, "all-gather": others, "broadcast": 1, "reduce": 1,
            "all-to-all": per_host * others, "send": 1, "barrier": 0}[operation]


def commands(program, options):
    """(what chooses, command, environment) of each run."""
    sizes = options.sizes or ("1024,262144" if options.quick else None)
    flags = [*(["--sizes", sizes] if sizes else []),
             *(["--operations", options.operations] if options.operations else []),
             *(["--type", "bfloat16"] if options.precision == "bf16" else [])]
    for algorithm in options.algorithms.split(",") if options.algorithms else ["auto"]:
        yield algorithm, [program, *flags], {"DISTILL_COMM_ALGORITHM": algorithm}


def results(lines, algorithm, where, layout, options, limit_us):
    """bench/run's results; `limit_us(operation, bytes)`, or None where there is no limit."""
    kind = "-bf16" if options.precision == "bf16" else ""
    for line in lines:
        if not line.startswith("JSON "):
            continue
        found = json.loads(line[5:])
        limit = limit_us(found["operation"], found["bytes"]) if limit_us else None
        yield {"bench": "collectives", "case": f"{where}/{layout}/{found['operation']}{kind}/{algorithm}/{found['bytes']}",
               "unit": "us", "ours": found["p50_us"], "peer_name": None, "peer": None, "ratio": None,
               "limit": limit or None}
