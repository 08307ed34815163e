"""Emulated hosts on one machine: network namespaces on one bridge, each with its own name, address, /dev/shm and link.

    hosts.enter()                      # first of all: the rest runs in namespaces of its own, which end with it
    hosts.up(2, rate="1gbit")          # h0 at 10.77.0.1, h1 at 10.77.0.2; links of that rate in both directions
    process = hosts.start(1, command, environment)
    hosts.cut(1)                       # its packets vanish, the link stays up: no reset, no error
"""
import os
import re
import select
import shutil
import subprocess
import sys
import time

SKIPPED = 77
INSIDE = "DISTILL_TEST_INSIDE_NAMESPACES"
NAMESPACES = ["unshare", "--net", "--mount"]
BECOME = 'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && exec "$@"'
# As a switch port has it: what a rate limit lets through at once, and how long it lets packets wait.
LIMIT = ["burst", "256kb", "latency", "50ms"]


def outside():
    """Whether enter() is still to do something."""
    return not os.environ.get(INSIDE)


def enter():
    """Starts this program anew, once, in namespaces that nothing outside sees. Where that is not allowed the test ends
    as skipped, with the reason."""
    if not outside():
        return
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            print(f"skipped: no emulated hosts without the program {tool}")
            sys.exit(SKIPPED)
    command = [*NAMESPACES, "sh", "-c", "mount -t tmpfs tmpfs /run && ip link add hosts type bridge"]
    tried = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if tried.returncode != 0:
        print(f"skipped: no network namespaces here: {tried.stdout.strip()}")
        sys.exit(SKIPPED)
    os.execvpe("unshare", [*NAMESPACES, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def address(host, interface=0):
    return f"10.77.{interface}.{host + 1}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def up(count, rate=None, interfaces=1):
    """`rate`: of each link, each way, as tc writes it ("1gbit"); None: as fast as the machine. Interface k of every host
    (eth0, eth1, ...) is on a bridge and in a subnet of its own."""
    # Where ip keeps the names of namespaces.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    for interface in range(interfaces):
        ip("link", "add", f"hosts{interface}", "type", "bridge")
        ip("link", "set", f"hosts{interface}", "up")
    for host in range(count):
        name = f"h{host}"
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        for interface in range(interfaces):
            near, far = f"eth{interface}", f"to-{name}-{interface}"
            ip("link", "add", far, "type", "veth", "peer", "name", near, "netns", name)
            ip("link", "set", far, "master", f"hosts{interface}", "up")
            ip("-n", name, "addr", "add", f"{address(host, interface)}/24", "dev", near)
            ip("-n", name, "link", "set", near, "up")
            if rate is not None:  # both directions: the host's own, and the bridge's to it
                for end in (["-n", name], near), ([], far):
                    subprocess.run(["tc", *end[0], "qdisc", "add", "dev", end[1], "root", "tbf", "rate", rate, *LIMIT],
                                   check=True)


def start(host, command, environment):
    """The process is the command's own; its output comes through a pipe."""
    return subprocess.Popen([*inside(host), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **environment})


def inside(host):
    """What to write before a command that is to run on the host."""
    name = f"h{host}"
    return ["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "sh", "-c", BECOME, name]


def ranks(count, port, per_host=1, **environment):
    """The environment of each rank of a job on so many hosts; rank r is to run on host r // per_host."""
    return [{"DISTILL_RANK": str(rank), "DISTILL_WORLD_SIZE": str(count * per_host),
             "DISTILL_LOCAL_RANK": str(rank % per_host), "DISTILL_LOCAL_SIZE": str(per_host),
             "DISTILL_RENDEZVOUS": f"{address(0)}:{port}", "DISTILL_JOB_SECRET": "of emulated hosts", **environment}
            for rank in range(count * per_host)]


def await_ready(rank, process):
    """What a rank says once it has finished its first call: its line that begins with "ready over", and all until then."""
    said = ""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not select.select([process.stdout], [], [], 1)[0]:
            continue
        piece = os.read(process.stdout.fileno(), 1 << 16).decode()  # not by line: what is buffered here select misses
        said += piece
        ready = re.search("^ready over .*$", said, re.MULTILINE)
        if ready:
            return ready[0], said
        if not piece:
            break
    sys.exit(f"FAILED: rank {rank} never got ready:\n{said}")


def control_congestion(count, interfaces, control):
    """By "reno", "cubic", "bbr", ... on all connections from now on; until then as this machine does."""
    for host in range(count):
        for interface in range(interfaces):
            network = f"{address(0, interface).rsplit('.', 1)[0]}.0/24"
            ip("-n", f"h{host}", "route", "change", network, "dev", f"eth{interface}", "src", address(host, interface),
               "congctl", control)


def cut(host):
    ip("link", "set", f"to-h{host}-0", "nomaster")
