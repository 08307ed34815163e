"""How a job grows with its ranks, on emulated hosts with sixteen each: what it takes to meet, sum, split and end, what a
rank takes of memory, descriptors and messages, and, with --kill, how soon a lost rank is named by all others. As many
ranks as this machine has memory and processes for."""
import math
import os
import re
import signal
import sys
import threading
import time

from suite import net
from suite.net import hosts
from suite.programs import BIN, build, own_results, say
from suite.rounds import line

PROGRAM = f"{BIN}/bench_scale"
PORT = 29640
COUNTS = [(2, 8), (2, 16), (4, 16), (8, 16), (16, 16)]  # hosts, ranks on each
QUICK = [(2, 2)]
HANG_SECONDS = 400  # a guard: nothing here is measured by it
MIB = 1 << 20
# What a rank with two communicators in two levels has open by itself, over libfabric 1.17's tcp: its four endpoints' above all.
FIXED_DESCRIPTORS = 56
# Beside what the kernel counts as a process's: buffers of connections, page tables, and what grows with the ranks. A job of 256 took
# 1.05 times what its ranks had counted.
SPARE = 1.25


class Job:
    """The ranks of so many hosts, of which one process each starts them; their lines are read while they come."""

    def __init__(self, count, per_host, port, *flags):
        environments = hosts.ranks(count, port, per_host, OMP_NUM_THREADS="1")
        self.ranks = count * per_host
        self.lines, self.ended_at, self.news = [], {}, threading.Condition()
        self.began = time.monotonic()
        self.processes = [hosts.start(host, [PROGRAM, "--fork", *flags], environments[host * per_host]) for host in range(count)]
        for host in range(count):
            threading.Thread(target=self._read, args=(host,), daemon=True).start()

    def _read(self, host):
        for text in self.processes[host].stdout:
            with self.news:
                self.lines.append(text.rstrip("\n"))
                self.news.notify_all()
        self.processes[host].wait()
        with self.news:
            self.ended_at[host] = time.monotonic()
            self.news.notify_all()

    def _await(self, what, ready):
        with self.news:
            deadline = time.monotonic() + HANG_SECONDS
            while not ready():
                if not self.news.wait(deadline - time.monotonic()):
                    said = "\n".join(self.lines[-20:])
                    sys.exit(f"error: {what} has not happened for {HANG_SECONDS} s:\n{said}")

    def await_ready(self):
        """{rank: its process} once every rank has made its first call."""
        def found():
            return [re.fullmatch(r"READY (\d+) (\d+)", text) for text in self.lines]

        self._await("the first call of every rank", lambda: sum(map(bool, found())) == self.ranks or self.ended_at)
        pids = {int(match[1]): int(match[2]) for match in found() if match}
        if len(pids) != self.ranks:
            sys.exit("error: ranks ended before they were ready:\n" + "\n".join(self.lines[-20:]))
        return pids

    def finish(self):
        """What the ranks say, by rank, once all have ended."""
        self._await("the end of every rank", lambda: len(self.ended_at) == len(self.processes))
        for host, process in enumerate(self.processes):
            if process.returncode != 0:
                sys.exit(f"error: h{host} ended with exit code {process.returncode}:\n" + "\n".join(self.lines[-20:]))
        return {found["rank"]: found for found in own_results(self.lines)}

    def kill(self):
        for process in self.processes:
            process.kill()


def measure(count, per_host, port):
    """A job from its start to its end: what its ranks say, and seconds in all."""
    job = Job(count, per_host, port)
    try:
        found = job.finish()
    finally:
        job.kill()
    if len(found) != job.ranks:
        sys.exit(f"error: {len(found)} of {job.ranks} ranks said what they took")
    return found, max(job.ended_at.values()) - job.began


def lose_one(count, per_host, port):
    """A rank is killed in the middle of an all-reduce. (Seconds until the last of the others had the error, which names it; until
    all processes had ended.)"""
    job = Job(count, per_host, port, "--until-lost")
    try:
        pids = job.await_ready()
        victim = job.ranks - per_host + per_host // 2  # on the last host, and no first rank of anything
        os.kill(pids[victim], signal.SIGSTOP)  # until all others are in an all-reduce that cannot end without it
        time.sleep(0.5)
        lost, wall = time.monotonic(), time.time()
        os.kill(pids[victim], signal.SIGKILL)
        found = job.finish()
    finally:
        job.kill()
    name = f"rank {victim} on h{victim // per_host} was lost"
    wrong = [f"rank {rank}: {said['error']}" for rank, said in found.items() if not said["unavailable"] or name not in said["error"]]
    if wrong or len(found) != job.ranks - 1:
        sys.exit(f"error: {len(found)} of {job.ranks - 1} ranks had an error, {len(wrong)} of which do not say that {name}:\n" +
                 "\n".join(wrong[:5]))
    return max(said["ended_at"] for said in found.values()) / 1e6 - wall, max(job.ended_at.values()) - lost


def roles(found):
    """{what: the ranks that are it}. Rank 0 is where the job meets; rank 1 where the second of the two parts does."""
    first = {"rank 0": [0], "rank 1": [1], "first of a host": [rank for rank, said in found.items() if said["local_rank"] == 0 and rank > 1]}
    named = {rank for ranks in first.values() for rank in ranks}
    split = {**first, "others": [rank for rank in found if rank not in named]}
    return {role: [found[rank] for rank in ranks] for role, ranks in split.items() if ranks}


def messages(said):
    return sum(step["messages"] for step in said["steps"].values())


FIGURES = {"memory": ("MiB", lambda said: said["memory"] / MIB), "descriptors": ("descriptors", lambda said: said["descriptors"]),
           "messages": ("messages", messages),
           "rendezvous": ("KiB", lambda said: (said["meeting_bytes_sent"] + said["meeting_bytes_received"]) / 1024)}


def rounds_to(ranks):
    """How often a rank hears of others until it has heard of all, where each round doubles them."""
    return math.ceil(math.log2(ranks))


def most_connections(count, per_host):
    """Over the fabric, of a rank in two levels: to each other host in its lane, and to those that it meets at distances 1, 2, 4, ...
    on both sides."""
    ranks = count * per_host
    return count - 1 + min(ranks - 1, 2 * rounds_to(ranks) - (ranks & (ranks - 1) == 0))


def most_messages(count, per_host):
    """{step: how many messages a rank sends in it at most}: calls of 8 bytes by recursive doubling, others by direct exchange, in its
    lane; to meet, each communicator twice, once in the lane. A Split exchanges what each rank wants before its parts meet."""
    others, ranks = count - 1, count * per_host
    long_sum = max(2 * others, rounds_to(count))
    return {"meeting": rounds_to(count) + rounds_to(ranks), "all-reduce of 8 bytes": rounds_to(count), "first all-reduce": long_sum,
            "all-reduce": long_sum, "reduce-scatter": others, "split": 5 * others + rounds_to(count) + rounds_to(ranks // 2),
            "all-reduce in a part": long_sum, "end": 0}


def most_descriptors(said, count, per_host):
    """What docs/collectives.md says that a rank has open at most, which has a communicator of all ranks and one of every other rank
    of each host."""
    parts = [per_host, per_host // 2]
    fabric = sum(most_connections(count, local) for local in parts)
    meetings = max(1, said["rank"] == 0 and count * parts[0] - 1) + max(1, said["rank"] <= 1 and count * parts[1] - 1)
    return FIXED_DESCRIPTORS + meetings + fabric + sum(2 * local - 1 for local in parts)


def left_on_machine():
    """Bytes and processes (threads count as such) that can still be had here; a container's limits count."""
    def number(path, missing):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read().split()[0]
        except OSError:
            return missing
        return missing if text == "max" else int(text)

    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) << 10
    group = "/sys/fs/cgroup"
    memory = min(memory, number(f"{group}/memory.max", math.inf) - number(f"{group}/memory.current", 0))
    return memory, number(f"{group}/pids.max", math.inf) - number(f"{group}/pids.current", 0)


def how_many(ranks, found, left):
    """Of so many ranks, those that fit into what is left, by what those took that have run; and why no more."""
    memory = SPARE * sum(said["memory"] for said in found.values()) / len(found)
    threads = max(said["threads"] for said in found.values())
    for what, each, room in (("GiB", memory / 2**30, left[0] / 2**30), ("threads", threads, left[1])):
        if ranks * each > room:
            return int(room / each), f"{ranks} ranks take about {ranks * each:.0f} {what}, and {room:.0f} are left"
    return ranks, ""


def results(count, per_host, found, seconds):
    where, ranks = f"{count}x{per_host}", len(found)
    in_levels = per_host >= 4 and per_host % 2 == 0
    for role, of_role in roles(found).items():
        for figure, (unit, value) in FIGURES.items():
            bounds = [most_descriptors(said, count, per_host) for said in of_role] if figure == "descriptors" and in_levels else []
            yield line("scale", f"{where}/{role}/{figure}", unit, [max(map(value, of_role))], bounds)
    for step in found[0]["steps"]:
        yield line("scale", f"{where}/{step}", "s", [max(said["steps"][step]["s"] for said in found.values())])
    yield line("scale", f"{where}/all of it", "s", [seconds])
    say(f"{ranks} ranks ({where}) met, summed, split and ended in {seconds:.1f} s")


def table(all_found):
    print(f"\n{'':8} {'most of a rank:':20}" + "".join(f"{name + ', ' + unit if unit != name else name:>19}" for name, (unit, _) in FIGURES.items()) +
          f"{'threads':>10} {'of the descriptors: meetings, fabric, host':>45}")
    for where, found in all_found.items():
        for role, of_role in roles(found).items():
            largest = [max(map(value, of_role)) for _, value in FIGURES.values()]
            kinds = [max(map(value, of_role)) for value in (lambda said: said["at_meeting"] + said["of_parts"], lambda said: said["of_fabric"],
                                                           lambda said: said["processes"] + said["memories"])]
            print(f"{where:8} {role:20}" + "".join(f"{value:19.1f}" for value in largest) + f"{max(said['threads'] for said in of_role):10} " +
                  f"{', '.join(map(str, kinds)):>45}")


def times(all_found):
    """Seconds of each step, of the slowest rank, and how many messages the rank that sent most sent in it."""
    steps = list(next(iter(all_found.values()))[0]["steps"])
    print(f"\n{'seconds (messages)':20}" + "".join(f"{step:>22}" for step in steps))
    for where, found in all_found.items():
        slowest = [max(said["steps"][step]["s"] for said in found.values()) for step in steps]
        most = [max(said["steps"][step]["messages"] for said in found.values()) for step in steps]
        print(f"{where:20}" + "".join(f"{f'{seconds:.2f} ({count})':>22}" for seconds, count in zip(slowest, most)))


def wanted(options):
    if options.hosts:
        return [(options.hosts, options.per_host)]
    return QUICK if options.quick else COUNTS


def bench(options):
    """Cases HOSTSxPER_HOST/ROLE/FIGURE, the most of the ranks with that role, and HOSTSxPER_HOST/STEP, the slowest rank's; with --kill,
    HOSTSxPER_HOST/lost/named and .../ended of the largest job. The limit of descriptors is what docs/collectives.md says. One run of
    each: what is counted hardly differs from run to run."""
    if hosts.outside():
        build("bench_scale")
    net.hosts.enter()
    counts = wanted(options)
    hosts.up(max(count for count, _ in counts))
    all_found, found, largest = {}, None, None
    for number, (count, per_host) in enumerate(counts):
        if found:
            fits, why = how_many(count * per_host, found, left_on_machine())
            if fits < count * per_host:
                count = fits // per_host
                say(f"{why}: {count * per_host} in their place" if count * per_host > len(found) else f"{why}: no more than {len(found)}")
                if count * per_host <= len(found):
                    break
        found, seconds = measure(count, per_host, PORT + number)
        largest = count, per_host
        all_found[f"{count}x{per_host}"] = found
        yield from results(count, per_host, found, seconds)
    if options.kill:
        named, ended = lose_one(*largest, PORT + len(counts))
        where = f"{largest[0]}x{largest[1]}"
        say(f"{where}: all others named the lost rank within {named:.1f} s, and had ended after {ended:.1f} s")
        yield line("scale", f"{where}/lost/named", "s", [named])
        yield line("scale", f"{where}/lost/ended", "s", [ended])
    table(all_found)
    times(all_found)
