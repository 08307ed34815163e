"""Loops for AVX2 and AVX-512 leave no inline functions behind: the linker keeps one of each name for the whole program, and other
kinds of CPU would run into instructions that they do not have. Looks at the objects of the build, DISTILL_BUILD_DIR."""
import glob
import os
import subprocess
import sys

BUILD = os.environ["DISTILL_BUILD_DIR"]
objects = sorted(name for kind in ("avx2", "avx512")
                 for name in glob.glob(f"{BUILD}/**/CMakeFiles/distill_*_{kind}.dir/*.o", recursive=True))
if not objects:
    print("skipped: loops are compiled for one kind of CPU here")
    sys.exit(77)
found = []
for name in objects:
    listed = subprocess.run(["nm", "-C", name], check=True, stdout=subprocess.PIPE, text=True).stdout
    found += [f"{os.path.relpath(name, BUILD)}: {line[19:]}" for line in listed.splitlines() if line[17:18] in ("W", "u")]
if found:
    sys.exit("error: inline functions in what is compiled for some CPUs alone; write them without std:: or in an unnamed namespace:\n"
             + "\n".join(found))
print(f"ok: {len(objects)} objects of loops hold no functions that other files could share")
