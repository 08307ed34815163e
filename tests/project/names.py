"""One name, one class: two of one namespace, in headers of different rooms, would be merged by the linker in a program
that has both, which then runs one's functions on the other's objects."""
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What begins a line is in a namespace, and in no class.
DEFINED = re.compile(r"^(?:template <.*> )?(?:class|struct|enum class|enum) (\w+)(?: final)?(?: : [^;]*)? \{")


def defined(lines):
    """The classes of a header that other files can name, each with its namespace: not those of an unnamed one."""
    namespaces = []
    for line in lines:
        if line.startswith("namespace "):
            namespaces.append(line[len("namespace "):].split("{")[0].strip())
        elif line.startswith("}  // namespace"):
            namespaces.pop()
        elif "" not in namespaces and DEFINED.match(line):
            yield "::".join(namespaces + [DEFINED.match(line)[1]])


def headers():
    for room in ("libdistill", "launcher", "examples", "bench", "tests"):
        for folder, _, names in os.walk(os.path.join(SOURCE, room)):
            yield from (os.path.join(folder, name) for name in names if name.endswith((".h", ".cuh")))


def taken_twice(found):
    """(name, the header that has it, another one) for pairs of a name and its header."""
    first = {}
    return [(name, first[name], path) for name, path in found if first.setdefault(name, path) != path]


def main():
    sample = ["class A {", "namespace x::y {", "struct B : public A {", "namespace {", "struct C {", "}  // namespace", "enum class D { kOne };",
              "class E;", "}  // namespace x::y", "struct B {"]
    assert list(defined(sample)) == ["A", "x::y::B", "x::y::D", "B"]
    assert taken_twice([("A", "x.h"), ("B", "x.h"), ("A", "y.h")]) == [("A", "x.h", "y.h")]
    found = []
    for path in sorted(headers()):
        with open(path, encoding="utf-8") as file:
            found += [(name, os.path.relpath(path, SOURCE)) for name in defined(file)]
    errors = [f"{path}: {name} is the name of another class, in {first}" for name, first, path in taken_twice(found)]
    print("\n".join(errors) or f"{len(found)} classes, each of its own name")
    sys.exit(bool(errors))


main()
