#!/usr/bin/python3
"""Prints the table of faults of docs/operations.md with what a run of ctest found:

  ctest --test-dir build -L fault --output-junit fault.xml; tests/faults/print_table.py build/fault.xml [MORE.xml...]

Fails where a line of the table has a test that failed or that was not run."""
import os
import re
import sys
import xml.etree.ElementTree as xml

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(SOURCE, "docs", "operations.md")


def rows():
    """(number, what is done, [tests]) of each line of the table."""
    with open(PAGE, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if line.startswith("|") and cells[0].isdigit() and len(cells) == 4:
                yield int(cells[0]), cells[1], re.findall(r"`(\w+)`", cells[3])


def results(paths):
    """{test: (seconds, "" or what became of it)}"""
    found = {}
    for path in paths:
        for case in xml.parse(path).getroot().iter("testcase"):
            status = {"run": "", "fail": "FAILED", "notrun": "skipped"}.get(case.get("status"), case.get("status"))
            found[case.get("name")] = (float(case.get("time", 0)), status)
    return found


def main():
    found, failed = results(sys.argv[1:]), False
    print(f"{'#':>3}  {'what is done':<78} {'seconds':>8}  tests")
    for number, what, tests in rows():
        seconds, texts = 0.0, []
        for test in tests:
            time, status = found.get(test, (0, "NOT RUN"))
            seconds += time
            texts.append(f"{test} {status}".strip())
            failed |= status in ("FAILED", "NOT RUN")
        print(f"{number:>3}  {what[:78]:<78} {seconds:>8.1f}  {', '.join(texts)}")
    sys.exit("a line of the table has no test that passed" if failed else 0)


main()
