"""Collectives in virtual time, on 2 to 512 hosts with eight GPUs: what the algorithms' own code would take by the cards'
figures. The limit is the time of the bytes that a host has to send at least over its cards."""
from suite.programs import BIN, build, own_results, run
from suite.rounds import line

SIZES = [4 << 10, 32 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20, 256 << 20]
LONGEST = {512: 64 << 20}  # minutes otherwise
# (hosts, operations, sizes)
GRIDS = [([2, 8, 64, 512], ["all-reduce"], SIZES),
         ([64], ["reduce-scatter", "all-gather", "broadcast", "reduce"], SIZES[:-1])]


def commands(options):
    for hosts, operations, sizes in GRIDS:
        if options.operations:
            operations = [name for name in operations if name in options.operations.split(",")]
        if options.sizes:
            sizes = [int(size) for size in options.sizes.split(",")]
        elif options.quick:
            sizes = [1 << 20]
        for number in hosts[:1] if options.quick else hosts:
            of_hosts = [str(size) for size in sizes if size <= LONGEST.get(number, size)]
            if operations and of_hosts:
                yield [f"{BIN}/bench_simulate", "--hosts", str(number), "--operations", ",".join(operations),
                       "--sizes", ",".join(of_hosts)]


def bench(options):
    """Cases CLUSTER/HOSTSxPER_HOST/OPERATION/BYTES. Every run gives the same: one round."""
    build("bench_simulate")
    for command in commands(options):
        for found in own_results(run(command)):
            where = f"{found['cluster']}/{found['hosts']}x{found['per_host']}"
            yield line("simulate", f"{where}/{found['operation']}/{found['bytes']}", "us", [found["us"]],
                       [found["us"] * found["share"]])
