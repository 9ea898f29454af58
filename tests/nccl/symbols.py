#!/usr/bin/env python3
"""libnccl.so.2 against the lists of NVIDIA's, and the table of docs/nccl.md against the code.

    symbols.py LIBRARY REPOSITORY          checks; exit status 0 if all is well
    symbols.py --table REPOSITORY          prints the table of docs/nccl.md
"""
import pathlib
import re
import subprocess
import sys

COUNTS = {"2.28.9": 105, "2.30.7": 165, "2.32.3": 193}
ROW = re.compile(r'^TUTTI_NCCL_(WORKS|REFUSED)\((\w+), "(.*)"\)$', re.M)


def listed(root: pathlib.Path) -> dict[str, set[str]]:
    """What each version exports."""
    lines = [line.split() for line in (root / "tests/nccl/symbols.txt").read_text().splitlines() if not line.startswith("#")]
    order = list(COUNTS)
    return {v: {name for name, first in lines if order.index(first) <= order.index(v)} for v in order}


def table(root: pathlib.Path) -> str:
    rows = sorted(ROW.findall((root / "src/compat/nccl/symbols.def").read_text()), key=lambda row: row[1])
    words = {"WORKS": "works", "REFUSED": "refused"}
    return "\n".join(["| function | | |", "|---|---|---|"] + [f"| `{name}` | {words[kind]} | {note} |" for kind, name, note in rows]) + "\n"


def problems(library: str, root: pathlib.Path) -> list[str]:
    output = subprocess.run(["nm", "-D", "--defined-only", "--without-symbol-versions", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[2] for line in output.splitlines() if line.split()[1] != "A"}
    found = []
    for version, names in listed(root).items():
        if len(names) != COUNTS[version]:
            found.append(f"symbols.txt has {len(names)} names of NCCL {version}, which exports {COUNTS[version]}")
        found += [f"NCCL {version} exports {name}; {library} does not" for name in sorted(names - exported)]
    every = listed(root)["2.32.3"]
    found += [f"{library} exports {name}, which NCCL does not" for name in sorted(exported - every)]
    defined = {name for _, name, _ in ROW.findall((root / "src/compat/nccl/symbols.def").read_text())}
    found += [f"symbols.def and symbols.txt differ in {name}" for name in sorted(defined ^ {n for n in every if not n.startswith("pnccl")})]
    if table(root) not in (root / "docs/nccl.md").read_text():
        found.append("the table of docs/nccl.md is stale: tests/nccl/symbols.py --table . prints it")
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print(table(pathlib.Path(sys.argv[2])), end="")
        sys.exit(0)
    wrong = problems(sys.argv[1], pathlib.Path(sys.argv[2]))
    print("\n".join(wrong) or f"exports the {', '.join(f'{n} names of NCCL {v}' for v, n in COUNTS.items())}")
    sys.exit(bool(wrong))
