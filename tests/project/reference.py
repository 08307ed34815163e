"""scripts/reference writes the reference of the public headers, and no comment in them makes doxygen warn."""
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILTER = ["awk", "-f", f"{SOURCE}/docs/reference/comments.awk"]
SKIPPED = 77
HEADER = """// What it is for.
#pragma once

// Of a < b \\n pairs.
struct Pair {
  int first;   // one
               // and more of it
  // Before it.
  int second;
};
"""
FILTERED = """/// \\file
/// What it is for.
#pragma once

/// Of a \\< b \\\\n pairs.
struct Pair {
  int first;   ///< one
               ///< and more of it
  /// Before it.
  int second;
};
"""


def fail(message):
    sys.exit(f"FAILED: {message}")


def check_filter():
    found = subprocess.run(FILTER, input=HEADER, stdout=subprocess.PIPE, text=True, check=True).stdout
    if found != FILTERED:
        fail(f"the filter of comments makes\n{found}")


def check_pages(folder):
    done = subprocess.run([f"{SOURCE}/scripts/reference", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        fail(f"scripts/reference: exit code {done.returncode}:\n{done.stdout}")
    with open(f"{folder}/html/classdistill_1_1Trainer.html", encoding="utf-8") as file:
        if "Every rank must call it; blocks until training is over." not in file.read():
            fail("the page of Trainer has no comment of Fit")


def main():
    check_filter()
    if shutil.which("doxygen") is None:
        print("skipped: doxygen is missing: scripts/setup --oracles installs it")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        check_pages(folder)
    print("ok: the reference, without a warning")


main()
