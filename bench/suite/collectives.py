"""Every collective against size, and all-reduce by each of its algorithms, on one host or between emulated ones.

The limit is the time of the bytes that a host has to send at least, over a plain TCP stream; on one host there is none
to name here (allreduce has the sweep).
"""
from suite import net
from suite.programs import BIN, ONE_CORE, build, distillrun, own_results, run
from suite.rounds import in_rounds, line


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


def figures(said, kind, algorithm):
    """{(bytes, what a case's name holds of it): figures} of a program's lines."""
    return {(found["bytes"], found["operation"], f"{found['operation']}{kind}/{algorithm}/{found['bytes']}"):
            {"us": found["p50_us"]} for found in own_results(said)}


def bench(options):
    """Cases shm/RANKS/OPERATION/ALGORITHM/BYTES, and net-RATE/... as of allreduce."""
    if not options.hosts or net.hosts.outside():
        build("bench_collectives")
    emulated = None
    if options.hosts:
        net.hosts.enter()
        emulated = net.Hosts(options, seconds=1)
    kind = "-bf16" if options.precision == "bf16" else ""

    def start(command, environment):
        if emulated:
            return emulated.run_ranks(command, **environment)
        return run(distillrun(options.ranks, *command), **ONE_CORE, **environment)

    def ours():
        found = {}
        for algorithm, command, environment in commands(f"{BIN}/bench_collectives", options):
            found.update(figures(start(command, environment), kind, algorithm))
        return found

    found = in_rounds({"ours": ours}, options.rounds)["ours"]
    where, layout = net.place(options) if emulated else ("shm", options.ranks)
    rate = emulated and emulated.rate()
    for (size, operation, name), values in found.items():
        least = emulated and net.least_us(size * sent(operation, options.hosts, options.per_host), rate, options.rails)
        yield line("collectives", f"{where}/{layout}/{name}", "us", values["us"], [least] if least else ())
