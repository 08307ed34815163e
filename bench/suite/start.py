"""From the command to the end of a job whose ranks make one all-reduce, and what loading a model costs."""
import statistics
import time

from suite.programs import BIN, LOOPBACK, ONE_CORE, PEERS, build, distillrun, own_results, run, torchrun
from suite.rounds import in_rounds, line, lines


def seconds(command, times, **environment):
    """The median of so many runs of a program, from its start to its end."""
    taken = []
    for _ in range(times):
        start = time.monotonic()
        run(command, **environment)
        taken.append(time.monotonic() - start)
    return statistics.median(taken)


def bench(options):
    """Cases BACKEND/RANKS; the limit is a job that does nothing. model/...: see bench_load."""
    python = build("bench_start", "bench_load", peers=options.peers)

    def ours():
        nothing = seconds(distillrun(options.ranks, "true"), 5, **ONE_CORE)
        return {f"{backend}/{options.ranks}": {
            "s": seconds(distillrun(options.ranks, f"{BIN}/bench_start", "--backend", backend), 5, **ONE_CORE),
            "limit_s": nothing} for backend in ("shm", "fabric")}

    def gloo():
        taken = seconds(torchrun(python, options.ranks, f"{PEERS}/gloo_start.py"), 1, **LOOPBACK)
        return {f"{backend}/{options.ranks}": {"s": taken} for backend in ("shm", "fabric")}

    found = in_rounds({"ours": ours, **({"gloo": gloo} if options.peers else {})}, options.rounds)
    for case in found["ours"]:
        yield from lines("start", case, "s", found, "s", "limit_s")
    loads = [own_results(run([f"{BIN}/bench_load"], **ONE_CORE))[0] for _ in range(options.rounds)]
    for case in "load", "hash", "build_id":
        yield line("start", f"model/{case}", "s", [load[case] for load in loads])
