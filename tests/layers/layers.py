#!/usr/bin/env python3
"""Checks the includes against the layers: a file includes only files of lower layers, or of its own room. A forward
declaration of another room's class counts as an include, and so does a name of another room's namespace.
src/README.md describes the layers.

    layers.py REPOSITORY      prints every violation; exit status 0 if there is none
"""
import collections
import pathlib
import re
import sys

FLOORS = {
    "tools": 10, "bench": 10,
    "src/train/planner": 9, "src/train": 9, "src/compat": 9,
    "src/capi": 8,
    "src/comm": 7,
    "src/select": 6, "src/sim": 6, "src/proof": 6, "src/control": 6, "src/rma": 6,
    "src/exec": 5, "src/synth": 5,
    "algorithms": 4, "transports": 4,
    "src/plan": 3, "src/link": 3,
    "src/reduce": 2,
    "src/topo": 1, "src/trace": 1,
    "src/base": 0,
}
# Each folder in these is a room of its own: it may use what the folder above it has and may use, but no room beside it.
# The folder above, and others, may not use it, but for WINDOWS: what looks into which rooms.
HOUSES = ("transports", "src/exec")
SAME_ROOM = ("src/exec/compile",)  # as the folder above it
WINDOWS = [
    (r"src/exec/cuda/", ["transports/cuda"]),
    (r"src/exec/(?!host/|gpu/)\w+/", ["src/exec/gpu"]),  # what GPUs of any vendor need
    (r"src/comm/communicator\.cpp", ["src/exec/host"]),  # makes the host's backend
    (r"bench/micro_", ["src/exec/host"]),
]

# The public headers are outside the layers: the vocabulary is for all, the API for layers above the communicator.
VOCABULARY = ("include/tutti/types.hpp", "include/tutti/error.hpp")
API_FROM = FLOORS["src/comm"]

# Folders that may not include everything below them, and the complete list of what they may include.
GUESTS = [
    (r"algorithms/", ["src/base", "src/reduce", "src/plan"]),
    (r"transports/", ["src/base", "src/topo", "src/reduce", "src/link"]),
    (r"src/control/", ["src/base", "src/topo", "src/trace", "transports"]),  # topo: speeds and places of network interfaces
    (r"src/capi/", ["src/base", "src/comm"]),
    (r"src/(train|compat)/", []),
    (r"bench/micro_", list(FLOORS)),  # a micro-benchmark measures an internal part
    (r"tools/info", ["src/base", "src/topo", "src/link", "src/select", "src/sim", "src/exec", "transports"]),  # shows what is usable
    (r"tools/sim/", ["src/base", "src/topo", "src/plan", "src/select", "src/sim", "src/exec", "src/comm"]),  # a call's deliveries
    (r"src/sim/", ["src/base", "src/topo", "src/link", "src/plan", "src/exec"]),  # what programs are, and where they run
    (r"src/synth/", ["src/base", "src/topo", "src/plan"]),  # a machine, and the plans that are made for it
    (r"src/proof/", ["src/base", "src/link", "src/plan", "src/exec"]),
    (r"tools/(plan|verify|explain|sim|draw)", ["src/base", "src/topo", "src/plan", "src/select", "src/sim", "src/proof", "src/synth"]),
    (r"tools/perf/(bound|perf\.|report)", ["src/base", "src/topo", "src/plan", "src/select"]),  # bounds
    (r"tools/topo/weakest", ["src/base", "src/topo", "src/select", "src/synth"]),  # what the loss of a link costs
    (r"tools/tune/", ["src/base", "src/topo", "src/plan", "src/select", "src/comm", "src/capi"]),  # a communicator's own view of the machine
    (r"tools/run/", ["src/base", "src/topo", "src/control"]),  # the launcher has the job server
    (r"tools/watch/", ["src/base", "src/topo", "src/control"]),  # it serves HTTP as the library's status servers do
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


def room_of(path: str) -> str:
    """The room that contains this file: a folder of a house, or the layer's folder."""
    parts = path.split("/")
    for house in HOUSES:
        depth = house.count("/") + 1
        room = "/".join(parts[:depth + 1])
        if path.startswith(house + "/") and len(parts) > depth + 1 and room not in SAME_ROOM:
            return room
    return folder_of(path)


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
    my_room, their_room = room_of(user), room_of(used)
    if their_room not in (my_room, theirs):
        windows = [rooms for pattern, rooms in WINDOWS if re.match(pattern, user)]
        if not any(their_room in rooms for rooms in windows):
            return f"{their_room} is a room of its own, and {my_room} may not look into it"
    if mine == theirs:
        return ""
    for pattern, allowed in GUESTS:
        if re.match(pattern, user):
            return "" if theirs in allowed else f"of the inner floors it may use only: {', '.join(allowed) or 'none'}"
    if FLOORS[theirs] < FLOORS[mine]:
        return ""
    where = "beside" if FLOORS[theirs] == FLOORS[mine] else "above"
    return f"{theirs} (floor {FLOORS[theirs]}) stands {where} {mine} (floor {FLOORS[mine]})"


BLANKED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
OPENED = re.compile(r"^(?:inline )?namespace ([\w:]+) \{|^\}  // namespace ([\w:]+)", re.M)
DECLARED = re.compile(r"^(?:class|struct|enum class) (\w+)(?: : \w+)?;", re.M)
DEFINED = re.compile(r"^(?:class|struct|enum class)(?: alignas\([^;{]*?\))? (\w+)(?: final)?(?: : [^;{]*)? \{", re.M)
NAMED = re.compile(r"(?<![\w:])(?:tutti::)?([a-z]+)::(?=\w)")
# The folders of namespaces; train's is also that of public headers.
NAMESPACES = {folder.rsplit("/", 1)[-1]: folder for folder in (
    "src/capi", "src/comm", "src/select", "src/sim", "src/synth", "src/proof", "src/control", "src/exec", "transports", "src/plan", "src/link",
    "src/topo")}


def without_text(text: str) -> str:
    """Without comments and strings; lines keep their numbers."""
    return BLANKED.sub(lambda match: "\n" * match[0].count("\n"), text)


def spaces(code: str):
    """(namespace, code in it), piece by piece."""
    stack, begin = [], 0
    for match in OPENED.finditer(code):
        yield "::".join(stack), begin, code[begin:match.start()]
        begin = match.end()
        stack = [*stack, match[1]] if match[1] else stack[:-1]
    yield "::".join(stack), begin, code[begin:]


def definitions(files: dict[str, str]) -> dict[tuple[str, str], set[str]]:
    """The headers that define a class, by its namespace and name."""
    found = collections.defaultdict(set)
    for user, code in files.items():
        if not user.endswith((".cpp", ".cu", ".c")):
            for space, _, piece in spaces(code):
                for match in DEFINED.finditer(piece):
                    found[space, match[1]].add(user)
    return found


def names_of_others(user: str, code: str, defined) -> list[str]:
    """What the file knows of other rooms without including them."""
    line = lambda place: code.count("\n", 0, place) + 1  # noqa: E731
    found = []
    for space, begin, piece in spaces(code):
        for match in DECLARED.finditer(piece):
            homes = defined.get((space, match[1]), set())
            if user in homes or not homes or any(not objection(user, home) for home in homes):
                continue
            home = sorted(homes)[0]
            found.append(f"{user}:{line(begin + match.start())}: declares {match[1]} of {home}: {objection(user, home)}")
    for match in NAMED.finditer(code):
        folder = NAMESPACES.get(match[1], folder_of(user))  # what is below came with a header that may be included
        if FLOORS[folder] >= FLOORS[folder_of(user)] and (reason := objection(user, folder + "/names")):
            found.append(f"{user}:{line(match.start())}: names {match[0]}…: {reason}")
    return found


def violations(root: pathlib.Path) -> list[str]:
    found = []
    tops = ("include", "src", "algorithms", "transports", "tools", "bench")
    paths = sorted(p for top in tops for p in (root / top).rglob("*") if p.suffix in SUFFIXES)
    files = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    codes = {user: without_text(text) for user, text in files.items()}
    defined = definitions(codes)
    for user, text in files.items():
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
        if not user.startswith("include/"):
            found += names_of_others(user, codes[user], defined)
        if user.startswith(tuple(folder + "/" for folder in NEVER_IN)):
            for match in NEVER.finditer(text):
                found.append(f'{user}:{text.count(chr(10), 0, match.start()) + 1}: speaks of "{match[0]}", but knows no collective')
    return found


if __name__ == "__main__":
    problems = violations(pathlib.Path(sys.argv[1]))
    sys.exit("\n".join(problems) or 0)
