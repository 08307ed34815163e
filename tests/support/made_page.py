"""Pages of docs/ with parts that a test makes: <!-- made: NAME --> ... <!-- end -->."""
import re
import sys

import job

MARK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", flags=re.S)


def code(names):
    return ", ".join(f"`{name}`" for name in names)


def table(head, rows):
    lines = [" | ".join(head), "|".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" if i != 1 else f"|{line}|" for i, line in enumerate(lines))


def write_or_check(name, makers, elsewhere=()):
    """With --write makes the parts of docs/NAME anew; else they must be what `makers` make. Another test makes those of
    `elsewhere`."""
    path = f"{job.SOURCE}/docs/{name}"
    with open(path, encoding="utf-8") as file:
        page = file.read()
    job.check({part for _, part, _ in MARK.findall(page)} == {*makers, *elsewhere}, f"docs/{name} lacks a part that is made, or has one too many")

    def make(part):
        return part.group(1) + makers[part.group(2)]() + "\n" + part.group(3) if part.group(2) in makers else part.group(0)

    made = MARK.sub(make, page)
    if sys.argv[1:] == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)
    else:
        job.check(made == page, f"docs/{name} is not what the code does: run {sys.argv[0]} --write")
        print(f"ok: the tables of docs/{name}")
