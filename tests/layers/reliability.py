#!/usr/bin/env python3
"""Checks that the tests and files named by docs/reliability.md exist.

    reliability.py REPOSITORY
"""
import fnmatch
import pathlib
import re
import sys

TEST = re.compile(r"^TEST(?:_P|_F)?\((\w+),\s*(\w+)\)", re.M)
SUITE = re.compile(r"`(?!TUTTI_)([A-Z]\w*\*?)(?:\.(\w*\*?\w*))?`")  # `Suite`, `Suite.Test`, `Suite.Te*`, `Suite*`
SCRIPT_CLASS = re.compile(r"^class (\w+)\(unittest\.TestCase\)", re.M)
PATH = re.compile(r"\b(?:tests|docs|tools|include)/[\w/.]*\w")


def complaints(root: pathlib.Path, page: str) -> list[str]:
    known = {match for path in (root / "tests").rglob("*.cpp") for match in TEST.findall(path.read_text())}
    known |= {(name, "") for path in (root / "tests").rglob("*.py") for name in SCRIPT_CLASS.findall(path.read_text())}
    found = []
    for suite, test in SUITE.findall(page):
        if not any(fnmatch.fnmatchcase(s, suite) and fnmatch.fnmatchcase(t, test or "*") for s, t in known):
            found.append(f"docs/reliability.md names the test {suite}{'.' + test if test else ''}, which does not exist")
    for path in sorted(set(PATH.findall(page))):
        if not (root / path).exists():
            found.append(f"docs/reliability.md names {path}, which does not exist")
    return found


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    text = (root / "docs/reliability.md").read_text()
    problems = complaints(root, text)
    if not complaints(root, text.replace("`Killed`", "`Kilt`")):
        problems.append("reliability.py does not notice a test that does not exist")
    sys.exit("\n".join(problems) or 0)
