#!/usr/bin/env python3
"""Checks that no formatter has broken comments, and that none exceeds the column limit.

    comments.py REPOSITORY

clang-format leaves comments alone (ReflowComments: false), so their width is checked here. A former
reflow left traces: a ruler or a closing `*/` on a line of its own, or a single word in the margin of an indented table.
"""
import pathlib
import re
import sys

WIDTH = 120
FOLDERS = ("include", "src", "algorithms", "transports", "tools", "bench", "tests")
RULER = re.compile(r"\s*//[/ ]*[-=]{20,}\s*")
CLOSING = re.compile(r"\s*\*/\s*")
ENTRY = re.compile(r"\s*//   \S+(, \S+)*  ")  # "//   name     meaning", continued below in the meaning's column
MARGIN = re.compile(r"\s*//   \S+")


def faults(lines: list[str]) -> list[tuple[int, str]]:
    """(line number, fault) for the lines of one file."""
    found = []
    for number, line in enumerate(lines, 1):
        before = lines[number - 2].strip() if number > 1 else ""
        if len(line) > WIDTH and re.match(r"\s*(//|/?\*)", line):
            found.append((number, f"a comment of {len(line)} columns; at most {WIDTH} are allowed"))
        if RULER.fullmatch(line) and before.startswith("//") and len(before) > 2:
            found.append((number, "a ruler that was cut from its heading"))
        if CLOSING.fullmatch(line) and before.startswith("/*"):
            found.append((number, "the closing */ of a comment of one line, on a line of its own"))
        if MARGIN.fullmatch(line) and ENTRY.match(lines[number - 2] if number > 1 else ""):
            found.append((number, "one word in the margin of a table: cut from the line above"))
    return found


def complaints(root: pathlib.Path) -> list[str]:
    found = []
    if "ReflowComments: false" not in (root / ".clang-format").read_text():
        found.append(".clang-format: ReflowComments is not false, so clang-format cuts prose")
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".hpp", ".cpp", ".cu", ".cuh", ".c"):
                continue
            for number, what in faults(path.read_text().split("\n")):
                found.append(f"{path.relative_to(root)}:{number}: {what}")
    return found


def self_test() -> list[str]:
    """Each kind of fault is found, and correct comments are accepted."""
    bad = [["// ---- ranges", "// " + "-" * 80], ["/* one two three.", " */"],
           ["//   avg          floats: else the", "//   nearest"], ["// " + "x" * 118]]
    good = [["// ---- ranges", ""], ["/*", " * several", " * lines", " */"], ["//   prod    floats", "//           more"]]
    return [f"comments.py does not find {lines}" for lines in bad if not faults(lines)] + [
        f"comments.py finds fault with {lines}: {faults(lines)}" for lines in good if faults(lines)]


if __name__ == "__main__":
    sys.exit("\n".join(self_test() + complaints(pathlib.Path(sys.argv[1]))) or 0)
