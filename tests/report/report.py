#!/usr/bin/env python3
"""What a run of tests left out: parts that are not in the build, and tests that were skipped, each with its reason.

    report.py BUILD               prints it; the exit status is 0
    report.py BUILD --strict FILE  exit status 1 if a part or test is left out that FILE does not allow
    report.py BUILD --parts        of parts alone, before any test has run

BUILD holds parts.txt (cmake/Parts.cmake), tests.xml (ctest --output-junit), Testing/Temporary/LastTest.log, and not_done.txt if
tools/test could not make a check. FILE has one line for each thing that may be left out, with the reason after it; `*` stands
for any text:

    part cuda            Debian has no nvcc that compiles C++20
    test cli.lab_page    takes a browser
    check formatting     other versions of clang-format format otherwise
"""
import argparse
import fnmatch
import pathlib
import re
import sys
import xml.etree.ElementTree

REASON = re.compile(r"skipped[ :=]|SKIPPED|: Skipped$", re.I)
KINDS = {"part": "not built", "check": "not done", "test": "skipped"}
COUNT = re.compile(r"^OK \(skipped=\d+\)|^\[  SKIPPED \]|^(FAILED|OK) \(|tests?, listed below")


def parts_left_out(build):
    """[(name, reason)]"""
    rows = [line.split("\t") for line in (build / "parts.txt").read_text().splitlines()]
    return [(name, words) for state, name, _, words in rows if state == "out"]


def checks_left_out(build):
    """[(name, reason)], of lines NAME: REASON."""
    file = build / "not_done.txt"
    return [tuple(line.split(": ", 1)) for line in file.read_text().splitlines()] if file.exists() else []


def outputs(log):
    """{test: its output lines}, of ctest's log of a run."""
    blocks = re.split(r"^\d+/\d+ Testing: (.*)$", log, flags=re.M)
    found = {}
    for name, block in zip(blocks[1::2], blocks[2::2]):
        output = re.search(r"^Output:\n-+\n(.*?)^<end of output>", block, flags=re.M | re.S)
        found[name.strip()] = output.group(1).splitlines() if output else []
    return found


def reasons(lines):
    """What the output says of skipping: GoogleTest's text after the place, unittest's, or a line that has the word."""
    found = []
    for number, line in enumerate(lines):
        if line.rstrip().endswith(": Skipped"):  # GoogleTest: FILE:LINE: Skipped, then the reason
            found.append(lines[number + 1].strip() if number + 1 < len(lines) else "")
        elif REASON.search(line) and not COUNT.search(line):
            found.append(re.sub(r"^.*?skipped[ :=]*", "", line, flags=re.I).strip(" '\""))
    return list(dict.fromkeys(reason for reason in found if reason))


def tests_left_out(build):
    """[(test, reason)], of tests that ctest calls skipped or disabled, and of those that skipped some of their parts."""
    lines = outputs((build / "Testing/Temporary/LastTest.log").read_text(errors="replace"))
    left_out = []
    for case in xml.etree.ElementTree.parse(build / "tests.xml").getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        why = reasons(lines.get(name, []))
        if status in ("run", "fail") and not any(re.search(r"^OK \(skipped=|^\[  SKIPPED \]", line) for line in lines.get(name, [])):
            continue
        if status != "fail":
            left_out.append((name, "; ".join(why) or f"it did not run ({status})"))
    return left_out


def read_allowed(path):
    """[(kind, pattern)]. Exits with a message if a line is not understood or gives no reason."""
    allowed = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split(None, 2)
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 3 or words[0] not in KINDS:
            sys.exit(f"{path}:{number}: wants `part NAME REASON`, `check …` or `test …`, and this is: {line}")
        allowed.append((words[0], words[1]))
    return allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--strict", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    try:
        left_out = [("part", *row) for row in parts_left_out(options.build)]
        if not options.parts:
            left_out += [("check", *row) for row in checks_left_out(options.build)]
            left_out += [("test", *row) for row in tests_left_out(options.build)]
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        sys.exit(f"{options.build} has no complete run of tests: {error}")
    allowed = read_allowed(options.strict) if options.strict else None
    wrong = 0
    for kind, name, reason in left_out:
        refused = allowed is not None and not any(k == kind and fnmatch.fnmatchcase(name, p) for k, p in allowed)
        wrong += refused
        text = re.sub(r"[\x00-\x1f\x7f]+", " ", f"{KINDS[kind]}: {name}: {reason}")
        print(f"  {'NOT ALLOWED: ' if refused else ''}{text}")
    if not left_out:
        print("  nothing: all parts are built" + ("" if options.parts else ", and no test was skipped"))
    if wrong:
        sys.exit(f"{wrong} left out that {options.strict} does not allow")


if __name__ == "__main__":
    main()
