"""Collectives between emulated hosts, one or several ranks each, and all-reduce with Open MPI and Gloo on the same hosts.

Used by bench/run with --hosts; the limit is the rate of a plain TCP stream over the same links.
"""
import os
import re
import shlex
import sys

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.path.join(REPO, "bench", "peers")
sys.path.insert(0, os.path.join(REPO, "tests", "support"))
import hosts

PORT = 29600


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def finish(process, what):
    """Its lines, echoed while they come; a failure ends the benchmark."""
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if not line.startswith("JSON "):
            print(line, end="", flush=True)
    if process.wait() != 0:
        sys.exit(f"error: {what} ended with exit code {process.returncode}")
    return lines


def run_ranks(command, environments, per_host, what):
    """So many ranks on each host, one host after the other; rank 0's lines."""
    processes = [hosts.start(rank // per_host, command, environment) for rank, environment in enumerate(environments)]
    try:
        lines = finish(processes[0], what)
        for rank, process in enumerate(processes[1:], start=1):
            said = process.communicate(timeout=30)[0]
            if process.returncode != 0:
                sys.exit(f"error: {what}, rank {rank}: exit code {process.returncode}: {said}")
    finally:
        for process in processes:
            process.kill()
    return lines


STREAM = [sys.executable, os.path.join(REPO, "bench", "tcp_stream.py")]


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
    shared = ["--mca", "mpi_yield_when_idle", "1"] if ranks > len(os.sched_getaffinity(0)) else []
    return ["mpirun", "--allow-run-as-root", "-n", str(ranks), "--host", slots, "--bind-to", "none", *shared,
            "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,vader,self", "--mca", "btl_tcp_if_include", network,
            "--mca", "oob_tcp_if_include", network, "--mca", "pml", "ob1", *command]


def peers(python, count, per_host, sizes):
    """{name: lines} of the peers' tables."""
    environment = {"OMP_NUM_THREADS": "1", "SIZES": ",".join(map(str, sizes))}
    say(f"the same with Open MPI, {count} hosts")
    command = mpirun(count, per_host, "-x", "SIZES", "-x", "OMP_NUM_THREADS", f"{python}/python", "-m", "mpi4py",
                     f"{PEERS}/mpi_allreduce.py")
    yield "openmpi", finish(hosts.start(0, command, environment), "Open MPI")
    say(f"the same with Gloo, {count} hosts")
    ranks = count * per_host
    environments = [{**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": hosts.address(0),
                     "MASTER_PORT": str(PORT + 1), "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0"}
                    for rank in range(ranks)]
    yield "gloo", run_ranks([f"{python}/python", f"{PEERS}/gloo_allreduce.py"], environments, per_host, "Gloo")


def measure(commands, count, per_host, link, rails, seconds):
    """Runs each (command, environment) as the ranks of emulated hosts: rank 0's lines of each, and the rate of a host's
    links together; call hosts.enter() first. `seconds`: of each plain stream. All connections from then on, the peers'
    too, control congestion as the fastest plain stream does."""
    hosts.up(count, rate=link, interfaces=rails)
    say(f"{count} emulated hosts with {per_host} rank(s) and {rails} link(s) of {link} each")
    control, before = fastest_control(seconds)
    hosts.control_congestion(count, rails, control)
    both = rate_both_ways(control, seconds)
    say(f"two at once, one each way, carry {both:.4f} GB/s each with {control}, which is used below")
    lines = []
    for command, environment in commands:
        environments = hosts.ranks(count, PORT + 2, per_host, OMP_NUM_THREADS="1", **environment)
        lines.append(run_ranks(command, environments, per_host, os.path.basename(command[0])))
    return lines, rails * max(before, stream_rate(control, seconds))
