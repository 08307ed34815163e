"""The documents: links lead somewhere, files and options that are named exist, tables have as many cells as columns,
README.md fits three screens, and docs/measurements.md has one column a kind of machine."""
import glob
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README_LINES = 130
# Left of these come the rows' names. docs/measurements.md says which machine each is.
MACHINES = ["AVX2", "AVX-512", "AVX-512, bf16", "AMX", "GPU"]
# Words that the glossary has others for.
AVOIDED = re.compile(r"\b(rooms?|lent|shared? out|sharing out|go(?:es)? on (?:from|where))\b", re.IGNORECASE)
FILE = re.compile(r"`((?:bench|cmake|docs|examples|launcher|libdistill|scripts|tests|third_party)/[\w./-]+)")
# Header files are named without libdistill/.
HEADER = re.compile(r"[`(]([a-z0-9]+/\w+\.(?:h|cc|cu|cuh))[`),;:]")
OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*\w)(?![\w ]*-*>)")
# Programs whose options are not ours, in the lines that start them.
OTHERS = re.compile(r"#SBATCH|\b(cmake|ctest|hf download|torchrun|mpirun|srun|dd|perf|ip|sysctl)\b|Open MPI|exclude-libs")


def pages():
    found = [f"{SOURCE}/README.md", f"{SOURCE}/CONTRIBUTING.md", *glob.glob(f"{SOURCE}/docs/*.md")]
    return sorted(found + glob.glob(f"{SOURCE}/examples/**/README.md", recursive=True))


def prose(text):
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.S | re.M)


def anchors(text):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(text), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path, text, read):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(place):
            yield f"the link {target} leads nowhere"
        elif anchor and anchor not in anchors(read(place)):
            yield f"{target}: no heading makes that anchor"


def cells(row):
    return re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row).strip().strip("|"))


def uneven_tables(text):
    width = 0
    for line in prose(text).split("\n"):
        if not line.startswith("|"):
            width = 0
        elif width and len(cells(line)) != width:
            yield f"{len(cells(line))} cells, not {width}: {line}"
        else:
            width = len(cells(line))


def missing_files(text):
    for name in FILE.findall(text):
        if not glob.glob(os.path.join(SOURCE, name.rstrip(".:"))):
            yield f"{name}: no such file"
    for name in HEADER.findall(text):
        if not any(os.path.exists(os.path.join(SOURCE, folder, name)) for folder in ("libdistill", "")):
            yield f"{name}: no such file in libdistill/"


def unknown_options(text, known):
    for line in text.split("\n"):
        if not OTHERS.search(line):
            yield from (f"--{name} is no option of a program: {line}" for name in OPTION.findall(line)
                        if name.replace("-", "_") not in known)


def known_options():
    """Of distill_llm, and whatever our other programs and scripts quote as theirs."""
    with open(f"{SOURCE}/docs/config.md", encoding="utf-8") as file:
        known = set(re.findall(r"^\| `(\w+)` \|", file.read(), flags=re.M))
    for folder in ("bench", "examples", "launcher", "scripts", "libdistill"):
        for place, _, names in os.walk(f"{SOURCE}/{folder}"):
            for name in names:
                if name.endswith((".cc", ".py", ".sh")) or "." not in name:
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        known.update(option.replace("-", "_") for option in re.findall(r"--([a-z][\w-]+)", file.read()))
                elif name.endswith(".h"):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        text = file.read()
                    known.update(re.findall(r'v\.Field\(\s*"(\w+)"', text))
                    for aliases in re.findall(r"\.Alias\(([^)]*)\)", text):
                        known.update(re.findall(r'"(\w+)"', aliases))
    return known


def wrong_columns(text):
    """Tables whose head names a kind of machine name all, in one order."""
    for head in re.findall(r"^(\|.*)\n\|---", text, flags=re.M):
        named = [cell.strip() for cell in cells(head)][1:]
        if set(named) & set(MACHINES) and named != MACHINES:
            yield f"columns {named}, not {MACHINES}"


def errors_of(path, read, known):
    text = read(path)
    yield from broken_links(path, text, read)
    yield from uneven_tables(text)
    if not path.endswith("config.md"):  # which the program writes
        yield from missing_files(text)
        yield from unknown_options(text, known)
        yield from (f"'{word}': the glossary has another word" for word in AVOIDED.findall(prose(text)))
    if path.endswith("measurements.md"):
        yield from wrong_columns(text)
    if path == f"{SOURCE}/README.md" and text.count("\n") > README_LINES:
        yield f"{text.count(chr(10))} lines, more than {README_LINES}"


def check_the_check():
    page = "# One `two`, three\n[a](#one-two-three) [b](#four) [c](none.md)\n"
    assert len(list(broken_links(f"{SOURCE}/README.md", page, lambda _: page))) == 2
    assert list(uneven_tables("| a | b |\n|---|---|\n| `x|y` | 2 |\n")) == []
    assert len(list(uneven_tables("| a | b |\n|---|---|\n| 1 |\n"))) == 1
    assert len(list(missing_files("`docs/none.md`, core/log.h; (core/none.h)"))) == 2
    assert list(unknown_options("`run --known-one 1`", {"known_one"})) == []
    assert len(list(unknown_options("`run --known_one --other`", {"known_one"}))) == 1
    assert len(list(wrong_columns("| x | AVX2 | GPU |\n|---|---|---|\n"))) == 1
    assert AVOIDED.findall("modules, rooms; what goes on") == ["rooms"]


def main():
    check_the_check()

    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    known = known_options()
    errors = [f"{os.path.relpath(path, SOURCE)}: {error}" for path in pages() for error in errors_of(path, read, known)]
    print("\n".join(errors) or f"{len(pages())} documents, and what they name exists")
    sys.exit(bool(errors))


main()
