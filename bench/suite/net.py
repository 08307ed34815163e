"""Emulated hosts for benchmarks: our ranks and the peers' on them, and what their links carry at most.

With --hosts; the limit is the rate of a plain TCP stream over the same links.
"""
import os
import re
import shlex
import shutil
import sys
import tempfile

from suite.programs import BIN, PEERS, REPO, echoed, say, share_cores

sys.path.insert(0, os.path.join(REPO, "tests", "support"))
import hosts

PORT = 29600
BURST = 256e3  # bytes that a link lets through at once (hosts.LIMIT)


def place(options):
    """"net-1gbit" and "2x2" of a case."""
    where = f"net-{options.link}" if options.rails == 1 else f"net-{options.rails}x{options.link}"
    return where, str(options.hosts) if options.per_host == 1 else f"{options.hosts}x{options.per_host}"


def least_us(sent, rate, rails):
    """Microseconds for so many bytes of a host over its links of `rate` GB/s together: what their bursts hold is free. 0:
    they hold all of it, and nothing is known."""
    return max(0.0, sent - rails * BURST) / 1e3 / rate


STREAM = [sys.executable, os.path.join(REPO, "bench", "suite", "tcp_stream.py")]


def start_stream(sender, receiver, port, control, seconds):
    """A TCP stream between two hosts: the processes at its ends."""
    return [hosts.start(receiver, [*STREAM, "receive", str(port)], {}),
            hosts.start(sender, [*STREAM, "send", hosts.address(receiver), str(port), str(seconds), control], {})]


def finish_stream(receiver, sender):
    """Gigabytes a second."""
    said = receiver.communicate(timeout=60)[0]
    sender.wait()
    return float(re.search(r"payload ([\d.]+)", said)[1])


def stream_rate(control, seconds):
    """Of one TCP stream from host 1 to host 0."""
    return finish_stream(*start_stream(1, 0, PORT, control, seconds))


def rate_both_ways(control, seconds):
    """Of each of two TCP streams between hosts 0 and 1 at one time, in opposite directions: an all-reduce sends as much
    as it receives."""
    there, back = (start_stream(sender, 1 - sender, PORT + sender, control, seconds) for sender in (0, 1))
    return min(finish_stream(*there), finish_stream(*back))


def fastest_control(seconds):
    """Of the kernel's ways to control congestion (BBR, say, may stay below a shaper's rate), with its stream's rate: the
    best of three, one after the other, for the machine has slow moments."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="utf-8") as file:
        controls = file.read().split()
    rates = dict.fromkeys(controls, 0.0)
    for control in 3 * controls:
        rates[control] = max(rates[control], stream_rate(control, seconds))
    said = ", ".join(f"{rate:.4f} with {control}" for control, rate in rates.items())
    say(f"a plain TCP stream carries {said} GB/s")
    return max(rates.items(), key=lambda item: item[1])


def mpirun(count, per_host, *command):
    """Ranks of one host share memory. Started on host 0; orted goes to the others by address, through a stand-in for ssh."""
    agent = "/run/remote-shell"
    with open(agent, "w", encoding="utf-8") as file:
        file.write('#!/bin/bash\nwhile [[ "$1" == -* ]]; do shift; done\n'
                   'host=h$((${1##*.} - 1)); shift\n'
                   f'exec ip netns exec $host unshare --uts --ipc sh -c {shlex.quote(hosts.BECOME)} $host bash -c "$*"\n')
    os.chmod(agent, 0o755)
    network = f"{hosts.address(0).rsplit('.', 1)[0]}.0/24"
    ranks = count * per_host
    slots = ",".join(f"{hosts.address(host)}:{per_host}" for host in range(count))
    # Every host counts the machine's cores as its own: bound to them, the ranks of several would share one.
    return ["mpirun", "--allow-run-as-root", "-n", str(ranks), "--host", slots, "--bind-to", "none", *share_cores(ranks),
            "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,vader,self", "--mca", "btl_tcp_if_include", network,
            "--mca", "oob_tcp_if_include", network, "--mca", "pml", "ob1", *command]


class Hosts:
    """Emulated hosts, which are up as long as the program runs; call hosts.enter() first. All connections, the peers'
    too, control congestion as the fastest plain stream does."""

    def __init__(self, options, seconds):
        """`seconds`: of each plain stream."""
        self.count, self.per_host, self.rails, self.seconds = options.hosts, options.per_host, options.rails, seconds
        hosts.up(self.count, rate=options.link, interfaces=self.rails)
        say(f"{self.count} emulated hosts with {self.per_host} rank(s) and {self.rails} link(s) of {options.link} each")
        self.control, self.before = fastest_control(seconds)
        hosts.control_congestion(self.count, self.rails, self.control)
        both = rate_both_ways(self.control, seconds)
        say(f"two at once, one each way, carry {both:.4f} GB/s each with {self.control}, which is used below")

    def rate(self):
        """GB/s of a host's links together: the better of the streams before all that ran meanwhile and after it."""
        return self.rails * max(self.before, stream_rate(self.control, self.seconds))

    def run_ranks(self, command, **environment):
        """Our ranks; rank 0's lines."""
        environments = hosts.ranks(self.count, PORT + 2, self.per_host, OMP_NUM_THREADS="1", **environment)
        return self._start(command, environments, os.path.basename(command[0]))

    def _start(self, command, environments, what):
        """A process a rank, one host after the other."""
        processes = [hosts.start(rank // self.per_host, command, environment)
                     for rank, environment in enumerate(environments)]
        try:
            lines = echoed(processes[0], what)
            for rank, process in enumerate(processes[1:], start=1):
                said = process.communicate(timeout=30)[0]
                if process.returncode != 0:
                    sys.exit(f"error: {what}, rank {rank}: exit code {process.returncode}: {said}")
        finally:
            for process in processes:
                process.kill()
        return lines

    def openmpi(self, python, small, large):
        """Lines of its tables: from C++ in the environment `small`, from Python in `large`; None: not at all."""
        lines = []
        for environment, command in ((small, [f"{BIN}/peer_mpi_allreduce"]),
                                     (large, [f"{python}/python", "-m", "mpi4py", f"{PEERS}/mpi_allreduce.py"])):
            if environment:
                passed = mpirun(self.count, self.per_host, "-x", "SIZES", "-x", "OMP_NUM_THREADS", *command)
                lines += echoed(hosts.start(0, passed, {"OMP_NUM_THREADS": "1", **environment}), "Open MPI")
        return lines

    def gloo(self, python, small, large):
        lines = []
        for environment, command in ((small, [f"{BIN}/peer_gloo_allreduce"]),
                                     (large, [f"{python}/python", f"{PEERS}/gloo_allreduce.py"])):
            if not environment:
                continue
            ranks, store = self.count * self.per_host, tempfile.mkdtemp(prefix="distill-gloo-")
            environments = [{**environment, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(ranks),
                             "MASTER_ADDR": hosts.address(0), "MASTER_PORT": str(PORT + 1), "GLOO_STORE": store,
                             "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0"} for rank in range(ranks)]
            try:
                lines += self._start(command, environments, "Gloo")
            finally:
                shutil.rmtree(store)
        return lines
