"""A job over two emulated hosts of which one does not answer: distillrun names it within 30 s, and nothing is started.

Skipped, with the reason, where network namespaces are not allowed or ssh is not installed."""
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hosts

LIMIT_SECONDS = 30
DISTILLRUN = os.path.join(os.environ["DISTILL_BUILD_DIR"], "bin", "distillrun")


def check_unreachable():
    # Its packets vanish, as those of a host do that is down behind a router: nobody says so.
    hosts.ip("-n", "h0", "neigh", "replace", hosts.address(1), "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")
    hosts.cut(1)
    began = time.monotonic()
    process = hosts.start(0, [DISTILLRUN, "--host", f"h0:1,{hosts.address(1)}:1", "-np", "2", "sh", "-c", "echo started"], {})
    try:
        said = process.communicate(timeout=LIMIT_SECONDS)[0]
    finally:
        process.kill()
    took = time.monotonic() - began
    print(f"after {took:.1f} s, exit code {process.returncode}:\n{said}")
    if process.returncode == 0 or "started" in said or f"{hosts.address(1)}" not in said:
        sys.exit("FAILED: the host that does not answer is not named, or ranks were started without it")


hosts.enter()
if shutil.which("ssh") is None or shutil.which("mpirun") is None:
    print("skipped: a job over several hosts starts through mpirun and ssh, and one of them is not installed")
    sys.exit(hosts.SKIPPED)
hosts.up(2)
check_unreachable()
