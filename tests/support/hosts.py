"""Emulated hosts on one machine: network namespaces on one bridge, each with its own name, address, /dev/shm and link.

    hosts.enter()                      # first of all: the rest runs in namespaces of its own, which end with it
    hosts.up(2)                        # h0 at 10.77.0.1, h1 at 10.77.0.2
    process = hosts.start(1, command, environment)
    hosts.cut(1)                       # its packets vanish, the link stays up: no reset, no error
"""
import os
import shutil
import subprocess
import sys

SKIPPED = 77
INSIDE = "DISTILL_TEST_INSIDE_NAMESPACES"
NAMESPACES = ["unshare", "--net", "--mount"]
BRIDGE = "hosts"
BECOME = 'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && exec "$@"'


def enter():
    """Starts this program anew, once, in namespaces that nothing outside sees. Where that is not allowed the test ends
    as skipped, with the reason."""
    if os.environ.get(INSIDE):
        return
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            print(f"skipped: no emulated hosts without the program {tool}")
            sys.exit(SKIPPED)
    command = [*NAMESPACES, "sh", "-c", f"mount -t tmpfs tmpfs /run && ip link add {BRIDGE} type bridge"]
    tried = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if tried.returncode != 0:
        print(f"skipped: no network namespaces here: {tried.stdout.strip()}")
        sys.exit(SKIPPED)
    os.execvpe("unshare", [*NAMESPACES, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def address(host):
    return f"10.77.0.{host + 1}"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def up(count):
    # Where ip keeps the names of namespaces.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    for host in range(count):
        name = f"h{host}"
        ip("netns", "add", name)
        ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"to-{name}", "master", BRIDGE, "up")
        ip("-n", name, "addr", "add", f"{address(host)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")


def start(host, command, environment):
    """The process is the command's own; its output comes through a pipe."""
    name = f"h{host}"
    inside = ["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "sh", "-c", BECOME, name, *command]
    return subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **environment})


def cut(host):
    ip("link", "set", f"to-h{host}", "nomaster")
