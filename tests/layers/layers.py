#!/usr/bin/env python3
"""Checks the includes against the layers: a file includes only files of lower layers, or of its own folder. src/README.md describes the layers.

    layers.py REPOSITORY      prints every violation; exit status 0 if there is none
"""
import pathlib
import re
import sys

FLOORS = {
    "tools": 10, "bench": 10,
    "src/train/planner": 9, "src/train": 9, "src/compat": 9,
    "src/capi": 8,
    "src/comm": 7,
    "src/select": 6, "src/sim": 6, "src/proof": 6, "src/control": 6,
    "src/exec": 5,
    "algorithms": 4, "transports": 4,
    "src/plan": 3, "src/link": 3,
    "src/reduce": 2,
    "src/topo": 1,
    "src/base": 0,
}
# The public headers are outside the layers: the vocabulary is for all, the API for layers above the communicator.
VOCABULARY = ("include/tutti/types.hpp", "include/tutti/error.hpp")
API_FROM = FLOORS["src/comm"]

# Folders that may not include everything below them, and the complete list of what they may include.
GUESTS = [
    (r"algorithms/", ["src/base", "src/reduce", "src/plan"]),
    (r"transports/", ["src/base", "src/topo", "src/reduce", "src/link"]),
    (r"src/control/", ["src/base", "src/topo", "transports"]),  # topo: speeds and places of network interfaces
    (r"src/capi/", ["src/base", "src/comm"]),
    (r"src/(train|compat)/", []),
    (r"bench/micro_", list(FLOORS)),  # a micro-benchmark measures an internal part
    (r"tools/info", ["src/base", "src/topo", "src/link", "src/select", "src/sim", "transports"]),  # shows which transports are usable
    (r"tools/sim/", ["src/base", "src/topo", "src/plan", "src/select", "src/sim", "src/exec", "src/comm"]),  # a call's deliveries
    (r"src/sim/", ["src/base", "src/topo", "src/link", "src/plan", "src/exec"]),  # what programs are, and where they run
    (r"src/proof/", ["src/base", "src/link", "src/plan", "src/exec"]),
    (r"tools/(plan|verify|explain|sim|draw)", ["src/base", "src/topo", "src/plan", "src/select", "src/sim", "src/proof"]),
    (r"tools/tune/", ["src/base", "src/topo", "src/plan", "src/select", "src/comm", "src/capi"]),  # a communicator's own view of the machine
    (r"tools/lab/", ["src/base", "src/topo", "src/plan", "src/select", "src/train/planner"]),  # the planner is formulas, no part of the training library
    (r"bench/", ["src/base", "src/reduce"]),
    (r"tools/", ["src/base", "src/topo"]),
]

# Executors and transports move messages and must not depend on collectives.
NEVER = re.compile(r"\b(?:Collective|AllReduce|AllGather|[Aa]ll[-_ ](?:reduce|gather))\b")
NEVER_IN = ("src/exec", "transports")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(tutti/[^>]+)>)', re.M)
SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".def"}


# The first part of an include of this repository: "plan/…", "transports/…", "tutti/…". Others are external.
OURS = {part for folder in FLOORS for part in folder.split("/")} | {"tutti"}


def folder_of(path: str) -> str:
    """The layer's folder that contains this file; "" if none does."""
    return next((folder for folder in FLOORS if path.startswith(folder + "/")), "")


def resolve(root: pathlib.Path, user: str, included: str) -> str:
    """The included file's path in the repository; "" if it is not found."""
    beside = str(pathlib.Path(user).parent)
    for base in ("", "src", "include", beside):
        if (root / base / included).is_file():
            return (pathlib.Path(base) / included).as_posix()
    return ""


def objection(user: str, used: str) -> str:
    """Why `user` must not include `used`; "" if it may."""
    mine, theirs = folder_of(user), folder_of(used)
    if user.startswith("include/"):
        return "" if used.startswith("include/") else "a public header must not show what is inside"
    if used.startswith("include/"):
        if used in VOCABULARY or FLOORS[mine] >= API_FROM:
            return ""
        return "the API stands above it; below are only types.hpp and error.hpp"
    if not theirs:
        return "it stands on no floor"
    if mine == theirs:
        return ""
    for pattern, allowed in GUESTS:
        if re.match(pattern, user):
            return "" if theirs in allowed else f"of the inner floors it may use only: {', '.join(allowed) or 'none'}"
    if FLOORS[theirs] < FLOORS[mine]:
        return ""
    where = "beside" if FLOORS[theirs] == FLOORS[mine] else "above"
    return f"{theirs} (floor {FLOORS[theirs]}) stands {where} {mine} (floor {FLOORS[mine]})"


def violations(root: pathlib.Path) -> list[str]:
    found = []
    files = [p for top in ("include", "src", "algorithms", "transports", "tools", "bench") for p in (root / top).rglob("*")]
    for path in sorted(p for p in files if p.suffix in SUFFIXES):
        user, text = path.relative_to(root).as_posix(), path.read_text()
        if not user.startswith("include/") and not folder_of(user):
            found.append(f"{user}: stands on no floor; FLOORS in tests/layers/layers.py lists them")
            continue
        for match in INCLUDE.finditer(text):
            included = match[1] or match[2]
            used = resolve(root, user, included)
            if not used and "/" in included and included.split("/")[0] not in OURS:
                continue
            reason = objection(user, used) if used else "there is no such file from the repository, src/ or include/"
            if reason:
                found.append(f'{user}:{text.count(chr(10), 0, match.start(match.lastindex)) + 1}: "{included}": {reason}')
        if user.startswith(tuple(folder + "/" for folder in NEVER_IN)):
            for match in NEVER.finditer(text):
                found.append(f'{user}:{text.count(chr(10), 0, match.start()) + 1}: speaks of "{match[0]}", but knows no collective')
    return found


if __name__ == "__main__":
    problems = violations(pathlib.Path(sys.argv[1]))
    sys.exit("\n".join(problems) or 0)
