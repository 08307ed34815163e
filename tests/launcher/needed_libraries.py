"""The launcher starts on machines without Open MPI, LibTorch and Arrow: it needs none of their libraries."""
import re
import subprocess
import sys

said = subprocess.run(["readelf", "-d", sys.argv[1]], stdout=subprocess.PIPE, text=True, check=True).stdout
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said)
print(f"needs {', '.join(needed)}")
if "libc.so.6" not in needed or any(re.match(r"lib(mpi|torch|c10|arrow|parquet|nccl|cudart|fabric)", name) for name in needed):
    sys.exit("FAILED: the launcher needs other libraries than the system's")
