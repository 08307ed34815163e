#!/usr/bin/env python3
"""The S3 server and its proxy, once for all tests that need them.

  s3_fixture.py up FILE     starts both on free ports of loopback, and writes to FILE where they are; where there is no server
                            to be had, why
  s3_fixture.py down FILE   ends them
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def free_ports(count):
    """The first of `count` ports in a row, so that the server's monitor has the next one."""
    for first in range(20000 + os.getpid() % 20000, 60000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise SystemExit("no free ports on loopback")


def up(path):
    if path.exists():
        down(path)
    missing = [name for name in ("radosgw", "ceph-mon", "ceph-osd") if shutil.which(name) is None]
    if missing:
        path.write_text(f"skipped: no S3 server here: {', '.join(missing)} are not installed (scripts/setup --oracles)\n")
        print(path.read_text())
        return
    port = free_ports(3)
    folder = path.parent / "s3_server"
    subprocess.run(["bash", HERE / "s3_server", "up", folder, str(port)], check=True, stdout=subprocess.DEVNULL)
    proxy = subprocess.Popen([sys.executable, HERE / "s3_proxy.py", str(port + 2), str(port)], start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port + 2)) == 0:
                break
        time.sleep(0.05)
    path.write_text(f"server http://127.0.0.1:{port}\nproxy http://127.0.0.1:{port + 2}\npid {proxy.pid}\n")


def down(path):
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        if line.startswith("pid "):
            pid = int(line.split()[1])
            try:
                if "s3_proxy.py" in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGTERM)
            except OSError:
                pass  # it has ended
    subprocess.run(["bash", HERE / "s3_server", "down", path.parent / "s3_server"], check=False)
    path.unlink()


if __name__ == "__main__":
    {"up": up, "down": down}[sys.argv[1]](Path(sys.argv[2]).resolve())
