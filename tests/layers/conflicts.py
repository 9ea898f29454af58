#!/usr/bin/env python3
"""Checks that no file holds both sides of a merge.

    conflicts.py REPOSITORY
"""
import pathlib
import re
import sys

MARKER = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: .*)?$", re.M)  # seven equals signs alone may underline a title
APART = {".git", "build"}


def markers(text: str) -> list[int]:
    """The lines of `text` that a merge has left behind."""
    return [text.count("\n", 0, match.start()) + 1 for match in MARKER.finditer(text)]


def files(folder: pathlib.Path):
    for path in sorted(folder.iterdir()):
        if path.name in APART or path.is_symlink():
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def complaints(root: pathlib.Path) -> list[str]:
    return [f"{path.relative_to(root)}:{line}: a merge left both sides here"
            for path in files(root) for line in markers(path.read_bytes().decode(errors="ignore"))]


def self_test() -> list[str]:
    sides = "a\n" + "<" * 7 + " HEAD\nb\n" + "=" * 7 + "\nc\n" + ">" * 7 + " other\n"
    return [] if markers(sides) == [2, 6] and not markers("x <<<<<<< y\n") else ["conflicts.py does not find a conflict"]


if __name__ == "__main__":
    sys.exit("\n".join(self_test() + complaints(pathlib.Path(sys.argv[1]))) or 0)
