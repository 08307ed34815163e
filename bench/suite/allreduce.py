"""All-reduce against size, on one host or between emulated ones, beside Open MPI's and Gloo's.

Up to 64 KiB the peers are called from C++, above that as users call them, from Python: there its own time is nothing
beside theirs.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from suite import net
from suite.programs import (BIN, LOOPBACK, ONE_CORE, PEERS, build, distillrun, echoed, mpirun, own_results, run, torchrun)
from suite.rounds import in_rounds, line

SMALL = 1 << 16
SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28]
QUICK_SIZES = [1 << 10, 1 << 18, 1 << 22]


def sizes_of(options):
    if options.sizes:
        return list(map(int, options.sizes.split(",")))
    sizes = QUICK_SIZES if options.quick else SIZES
    return [size for size in sizes if size <= 1 << 26] if options.hosts else sizes


def small_and_large(sizes):
    """The environment of the programs in C++ and of those in Python; None where there is nothing for them."""
    parts = [size for size in sizes if size <= SMALL], [size for size in sizes if size > SMALL]
    return [{"SIZES": ",".join(map(str, part))} if part else None for part in parts]


def times(text):
    """{bytes: {"us": microseconds}} of a peer's table."""
    found = (re.match(r"\s*(\d+)\s+([\d.]+) us algbw\s+[\d.]+ busbw\s+([\d.]+)", said) for said in text)
    return {int(match[1]): {"us": float(match[2])} for match in found if match}


def own_times(text, backend=None):
    """{(bytes, kind): figures} of our lines."""
    found = {}
    for result in own_results(text):
        if backend not in (None, result["backend"]):
            sys.exit(f"error: between hosts over {result['backend']}")
        found[result["bytes"], result["kind"]] = {"us": result["p50_us"], "limit_us": result["limit_us"]}
    return found


def openmpi(python, ranks, sizes):
    small, large = small_and_large(sizes)
    said = run(mpirun(ranks, f"{BIN}/peer_mpi_allreduce"), **small) if small else []
    if large:
        said += run(mpirun(ranks, f"{python}/python", "-m", "mpi4py", f"{PEERS}/mpi_allreduce.py"), **large)
    return times(said)


def gloo(python, ranks, sizes):
    small, large = small_and_large(sizes)
    said = small_gloo(ranks, small) if small else []
    if large:
        said += run(torchrun(python, ranks, f"{PEERS}/gloo_allreduce.py"), **LOOPBACK, **large)
    return times(said)


def small_gloo(ranks, environment):
    """Gloo's ranks meet through files."""
    store = tempfile.mkdtemp(prefix="distill-gloo-")
    processes = [subprocess.Popen([f"{BIN}/peer_gloo_allreduce"], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **LOOPBACK, **environment, "RANK": str(rank),
                                       "WORLD_SIZE": str(ranks), "GLOO_STORE": store}) for rank in range(ranks)]
    try:
        return [said for process in processes for said in echoed(process, "Gloo")]
    finally:
        for process in processes:
            process.kill()
        shutil.rmtree(store)


def programs(options):
    return ["bench_allreduce", *(["peer_mpi_allreduce", "peer_gloo_allreduce"] if options.peers else [])]


def compare(where, layout, ranks, found):
    """Lines of what the rounds gave: times up to 64 KiB, bus bandwidths above."""
    for (size, kind), ours in found["ours"].items():
        unit = "us" if size <= SMALL else "GB/s"
        scale = size / 1e3 * 2 * (ranks - 1) / ranks

        def figures(values):
            return values if size <= SMALL else [scale / value for value in values if value > 0]

        peers = {name: of_peer[size]["us"] for name, of_peer in found.items() if name != "ours" and size in of_peer}
        for name in peers or [None]:
            yield line("allreduce", f"{where}/{layout}/{size}/{kind}", unit, figures(ours["us"]),
                       figures(ours["limit_us"]), name, figures(peers.get(name, ())))


def bench(options):
    """Cases shm/RANKS/BYTES/KIND; the limit is each rank's sweep over its slices, and one word from each of the others.
    Between hosts: see between_hosts."""
    if options.hosts:
        yield from between_hosts(options)
        return
    python, sizes = build(*programs(options), peers=options.peers), sizes_of(options)
    command = [f"{BIN}/bench_allreduce", "--sizes", ",".join(map(str, sizes)), *(["--total", "50000000"] if options.ranks > 2 else [])]
    contestants = {"ours": lambda: own_times(run(distillrun(options.ranks, *command)))}
    if options.peers:
        contestants["openmpi"] = lambda: openmpi(python, options.ranks, sizes)
        contestants["gloo"] = lambda: gloo(python, options.ranks, sizes)
    yield from compare("shm", options.ranks, options.ranks, in_rounds(contestants, options.rounds))


def between_hosts(options):
    """Cases net-RATE/HOSTS/BYTES/KIND (net-2xRATE/... with two links a host, net-RATE/HOSTSxRANKS/... with several
    ranks a host, which meet in two levels). The limit is what plain TCP streams carry over the same links, of what every
    host has to send at least, however many ranks it has; less the burst that a link lets through at once."""
    if net.hosts.outside():  # once: there is no network inside
        os.environ["DISTILL_BENCH_PYTHON"] = build(*programs(options), peers=options.peers)
    net.hosts.enter()
    python, sizes = os.environ["DISTILL_BENCH_PYTHON"], sizes_of(options)
    emulated = net.Hosts(options, seconds=1 if options.quick else 2)
    command = [f"{BIN}/bench_allreduce", "--sizes", ",".join(map(str, sizes)), "--total", str(1 << 26)]
    backend = "fabric" if options.per_host == 1 else "shm+fabric"
    contestants = {"ours": lambda: own_times(emulated.run_ranks(command), backend)}
    if options.peers:
        contestants["openmpi"] = lambda: times(emulated.openmpi(python, *small_and_large(sizes)))
        contestants["gloo"] = lambda: times(emulated.gloo(python, *small_and_large(sizes)))
    found = in_rounds(contestants, options.rounds)
    rate = emulated.rate()
    for (size, _), figures in found["ours"].items():
        sent = size * 2 * (options.hosts - 1) / options.hosts
        figures["limit_us"] = [net.least_us(sent, rate, options.rails)]
    yield from compare(*net.place(options), options.hosts * options.per_host, found)
