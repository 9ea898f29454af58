#!/usr/bin/env python3
"""Holds the includes against the floors of the house: a file includes only what stands on lower floors, or beside it in
its own folder. src/README.md describes the floors.

    layers.py REPOSITORY      prints every violation; exit status 0 only when there is none
"""
import pathlib
import re
import sys

FLOORS = {
    "tools": 9, "bench": 9,
    "src/train": 8, "src/compat": 8,
    "src/capi": 7,
    "src/comm": 6,
    "src/select": 5, "src/sim": 5, "src/control": 5,
    "src/exec": 4,
    "algorithms": 3, "transports": 3,
    "src/plan": 2, "src/topo": 2, "src/link": 2,
    "src/reduce": 1,
    "src/base": 0,
}
# The public headers stand outside: the vocabulary is everybody's, the API is for those above the communicator.
VOCABULARY = ("include/tutti/types.hpp", "include/tutti/error.hpp")
API_FROM = FLOORS["src/comm"]

# Folders that may include less than all that stands below them: all of it is listed here.
GUESTS = [
    (r"algorithms/", ["src/base", "src/reduce", "src/plan"]),
    (r"transports/", ["src/base", "src/reduce", "src/link"]),
    (r"src/control/", ["src/base", "transports"]),
    (r"src/capi/", ["src/base", "src/link", "src/control", "src/comm"]),
    (r"src/(train|compat)/", []),
    (r"bench/micro_", list(FLOORS)),  # a micro-benchmark is there to measure an inner part
    (r"tools/info", ["src/base", "src/link", "transports", "src/topo"]),  # says which transports can be used, or why not
    (r"tools/(plan|verify|explain|sim|tune|draw)", ["src/base", "src/plan", "src/select", "src/sim"]),
    (r"bench/", ["src/base", "src/reduce"]),
    (r"tools/", ["src/base"]),
]

# Executors and transports move messages; which collective they serve is not their business.
NEVER = re.compile(r"\b(?:Collective|AllReduce|AllGather|[Aa]ll[-_ ](?:reduce|gather))\b")
NEVER_IN = ("src/exec", "transports")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(tutti/[^>]+)>)', re.M)
SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".def"}


# The first part of an include that means the house: "plan/…", "transports/…", "tutti/…". Others are other people's.
OURS = {part for folder in FLOORS for part in folder.split("/")} | {"tutti"}


def folder_of(path: str) -> str:
    """The floor's folder that holds this file; "" when none does."""
    return next((folder for folder in FLOORS if path.startswith(folder + "/")), "")


def resolve(root: pathlib.Path, user: str, included: str) -> str:
    """The included file's path in the repository; "" when it is not found there."""
    beside = str(pathlib.Path(user).parent)
    for base in ("", "src", "include", beside):
        if (root / base / included).is_file():
            return (pathlib.Path(base) / included).as_posix()
    return ""


def objection(user: str, used: str) -> str:
    """Why `user` must not include `used`; "" when it may."""
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
