"""The parts of tools/release, and how each reads what came out: {"figure": a line, "missed": [a line each]}."""
import dataclasses
import json
import pathlib
import re
import statistics
import sys
import typing
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
sys.path.insert(0, str(ROOT / "bench"))
from vs_peers_lib import figures  # noqa: E402


def found(pattern, text, what):
    """All matches, line by line. ValueError if there is none."""
    matches = re.findall(pattern, text, re.M)
    if not matches:
        raise ValueError(f"no {what}")
    return matches


# ---- tests: `log` is what the command printed --------------------------------------------------------------------------


def without_folders(line):
    """Programs by name alone: where they lie says something of one machine only."""
    return re.sub(r"(?<![\w./])/(?:[\w.+-]+/)+(?=python)", "", line)


def read_tests(log):
    """ctest's totals, the failed tests, and what tests/report/report.py lists as left out."""
    failed, ran = map(int, found(r"^\d+% tests passed, (\d+) tests failed out of (\d+)", log, "run of ctest")[-1])
    seconds = float(found(r"^Total Test time \(real\) = +([\d.]+)", log, "time of ctest")[-1])
    listed = log.rpartition("The following tests FAILED:")[2] if failed else ""
    names = re.findall(r"^\s+\d+ - (.*) \([\w ]+\)", listed.partition("\n\n")[0], re.M)
    told = re.findall(r"^  (?:not built|not done|skipped): .*", log, re.M)
    left_out = list(dict.fromkeys(without_folders(line.strip()) for line in told))
    skipped = sum(line.startswith("skipped") for line in left_out)
    if skipped >= ran:
        raise ValueError(f"all {ran} tests were skipped")
    return {"figure": f"{ran} tests, {failed} failed, {skipped} with something skipped; {seconds / 60:.0f} min of tests",
            "missed": [FAILED + name for name in names] + left_out}


def read_full(log):
    """As read_tests, and what the promises of docs/reliability.md come to."""
    return {**read_tests(log), "promises": promises(ROOT / "build/release/tests.xml")}


def promises(results):
    """[[section, promise, passed, failed, skipped, seconds]] from ctest's XML, of promises with tests of their own."""
    cases = []
    for case in xml.etree.ElementTree.parse(results).getroot().iter("testcase"):
        name = re.sub(r"^\w+/(?=\w+\.)|/.*$", "", case.get("name"))
        cases.append((name, case.get("status"), float(case.get("time") or 0)))
    rows, section = [], ""
    for line in (ROOT / "docs/reliability.md").read_text().splitlines():
        if line.startswith("## "):
            section = line[3:].partition(".")[0]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or not section.isdigit() or len(cells) < 2 or cells[0] == "promise":
            continue
        names = re.findall(r"`([A-Za-z][\w.*]*)`", cells[1])
        any_of = "|".join(re.escape(name).replace(r"\*", r"[\w.]*") + r"(?:\.[\w.]+)?" for name in names)
        mine = [(status, seconds) for name, status, seconds in cases if any_of and re.fullmatch(any_of, name)]
        if mine:
            count = [sum(status == kind for status, _ in mine) for kind in ("run", "fail", "notrun")]
            rows.append([section, cells[0], *count, round(sum(seconds for _, seconds in mine), 1)])
    return rows


def read_tidy(log):
    found(r"^== (clang-tidy)$", log, "run of clang-tidy")
    return {"figure": f"{len(re.findall(r': (?:warning|error): ', log))} findings", "missed": []}


def read_fuzz(log):
    done = found(r"^(\w+)_fuzz: Done (\d+) runs in (\d+) second", log, "target that ended")
    return {"figure": "; ".join(f"{name} {int(runs):,} inputs in {seconds} s" for name, runs, seconds in done),
            "missed": re.findall(r"^== (.* found a defect)", log, re.M)}


def read_soak(log):
    """The random programs of tests/attack, and the floods of connections."""
    programs = found(r"^(\d+ programs, \d+ findings)$", log, "programs that ended")
    floods = found(r"^(\d+ starts in .*)$", log, "flood that ended")
    kinds = "hang|crash|data|alarm|silent|code|unnamed|slow|inexact"
    return {"figure": "; ".join([programs[-1], *floods]), "missed": re.findall(rf"^  ((?:{kinds}): .*)$", log, re.M)}


def read_torch(log):
    """The backend's tests, and those of PyTorch's own suite that it runs with the backend, the last: some are known to fail."""
    ran = found(r"^Ran (\d+) tests? in ", log, "run of unittest")
    ended = found(r"^(OK|FAILED)(?: \(.*\))?$", log, "end of unittest")
    wanted, bound = found(r"^LD_PRELOAD: .*of (\d+) symbols (\d+) are bound", log, "program on libnccl.so.2")[-1]
    suite = re.findall(r"^(PyTorch's own tests: .*)$", log, re.M)
    if suite:
        ran, ended = ran[:-1], ended[:-1]
    return {"figure": "; ".join([f"{sum(map(int, ran))} tests: {' '.join(dict.fromkeys(ended))}", *suite,
                                 f"{bound} of {wanted} symbols of PyTorch bound to libnccl.so.2"]),
            "missed": [f"skipped: {line}" for line in re.findall(r"^(\S+ \(.*\)) \.\.\. skipped", log, re.M)]}


# ---- benchmarks --------------------------------------------------------------------------------------------------------


def read_instructions(log):
    rows = found(r"^\| (\w+) +\| +([\d.]+) \|$", log, "row")
    return {"figure": "; ".join(f"{name} {count}" for name, count in rows), "missed": []}


def read_vs_peers(_log):
    """Plain memory beside the fastest of Debian's libraries, back-to-back, by number of ranks."""
    raw = json.loads((RESULTS / "shm.json").read_text())
    cells = figures.cells_of(raw["rows"], raw["about"]["groups"])
    words, missed = [], []
    for ranks in sorted({cell.ranks for cell in cells.values()}):
        ratios = [(cell.ratio_to(cell.best("debian")), cell) for cell in cells.values()
                  if cell.ranks == ranks and cell.mode == "back"]
        ratios = [(ratio.value, cell) for ratio, cell in ratios if ratio]
        if not ratios:
            continue
        values = [value for value, _ in ratios]
        words.append(f"{ranks} ranks {min(values):.2f} to {max(values):.2f}, median {statistics.median(values):.2f}, faster in "
                     f"{sum(v < 1 for v in values)} of {len(values)} cells")
        missed += [f"{ranks} ranks, {cell.collective} of {cell.size} bytes: {value:.2f}" for value, cell in ratios if value >= 1]
    if not words:
        raise ValueError("no cell with one of Debian's libraries")
    return {"figure": "time ÷ that of the faster: " + "; ".join(words), "missed": missed}


def read_two_hosts(_log):
    rows = found(r"^\| (\d+) \|.*?\| \**([\d.]+)\**(?: \(≤ ([\d.]+)\))? \| [\d.]+ \| ", (RESULTS / "two_hosts.md").read_text(), "row")
    return {"figure": "time ÷ that of the faster: " + ", ".join(f"{size} B {ratio}" for size, ratio, _ in rows),
            "missed": [f"{size} bytes: {ratio}, aim {aim}" for size, ratio, aim in rows if aim and float(ratio) > float(aim)]}


def lines_of(page, pattern):
    def read(_log):
        return {"figure": " ".join(found(pattern, (RESULTS / page).read_text(), "line of figures")), "missed": []}
    return read


def read_train(_log):
    """The communication part of a step: the last column of the medians, by mode."""
    rows = found(r"^\| (DDP|ZeRO-3) \| median \|.*\| ([\d.]+) \|$", (RESULTS / "train_vs_torch.md").read_text(), "row")
    return {"figure": "what communication adds to a step ÷ what it adds there: " + ", ".join(f"{mode} {ratio}" for mode, ratio in rows),
            "missed": [f"{mode}: {ratio}, aim 0.5" for mode, ratio in rows if float(ratio) > 0.5]}


def read_torch_vs_gloo(_log):
    """By size, the least and the most of all calls and numbers of ranks."""
    by_size = {}
    for size, ratio in found(r"^\| \w+ \| (\d+) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|", (RESULTS / "torch_vs_gloo.md").read_text(), "row"):
        by_size.setdefault(int(size), []).append(float(ratio))
    aims = {size: 10 if size < 1 << 20 else 4 for size in by_size}
    return {"figure": "Gloo's time ÷ Tutti's, from Python: "
                      + ", ".join(f"{size} B {min(r):.0f} to {max(r):.0f}" for size, r in sorted(by_size.items())),
            "missed": [f"{size} bytes: {min(r):.1f}, aim {aims[size]}" for size, r in sorted(by_size.items()) if min(r) < aims[size]]}


# ---- the parts ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    title: str
    command: tuple
    minutes: int  # it is cut off after these
    read: typing.Callable
    measures: bool = False  # wants an idle machine, and the release preset built first
    page: str = ""  # what it writes in bench/results
    needs: tuple = ()  # packages
    by_name: bool = False  # its command takes --only: a regular expression of names of tests


def measuring(name, title, command, minutes, read, page="", needs=()):
    return Part(name, title, command, minutes, read, True, page, needs)


FAILED = "failed: "
MENDED = "failed, and passed when run again at "


def counts_of(result):
    """How many tests ran, and how many of them failed; None if it was not ctest, or it did not come to its end."""
    counts = re.match(r"(\d+) tests, (\d+) failed", result["figure"])
    return counts and (int(counts[1]), int(counts[2]))


def failed_alone(part, result):
    """The part with the tests alone that failed in that result. ValueError if they were not all that was wrong with it."""
    missed = result["missed"] if result else []
    names = [line.removeprefix(FAILED) for line in missed if line.startswith(FAILED)]
    if not part.by_name or not names or not counts_of(result):
        raise ValueError("it has no failed tests that can be run alone; run all of it")
    mended = sum(line.startswith(MENDED) for line in missed)
    if len(names) + mended != counts_of(result)[1]:
        raise ValueError(f"it names {len(names) + mended} of {counts_of(result)[1]} failed tests; run all of it")
    pattern = "^(" + "|".join(re.sub(r"([][.*+?()^$|\\])", r"\\\1", name) for name in names) + ")$"
    return dataclasses.replace(part, command=(*part.command, "--only", pattern), read=read_tests)


TEST = "tools/test"
PARTS = (
    Part("fresh", "the README's commands in a bare Debian root", (TEST, "--fresh"), 120, read_tests),
    Part("torch", "the backend of torch.distributed, PyTorch on libnccl.so.2", (TEST, "--torch"), 90, read_torch),
    Part("full", "all tests, the exhaustive ones too", (TEST, "--full"), 180, read_full, by_name=True),
    Part("asan", "AddressSanitizer and UndefinedBehaviorSanitizer", (TEST, "--asan"), 120, read_tests, by_name=True),
    Part("tsan", "ThreadSanitizer", (TEST, "--tsan"), 120, read_tests, by_name=True),
    Part("litmus", "the order of one-sided calls, 10⁵ runs of each test (10⁴ over sockets), under ThreadSanitizer",
         (TEST, "--full", "--tsan", "--only", r"windows\.litmus\..*long"), 150, read_tests, by_name=True),
    Part("fuzz", "libFuzzer, each target for 300 s", (TEST, "--fuzz", "300"), 90, read_fuzz),
    Part("soak", "random programs with faults, floods of connections", (TEST, "--soak", "300"), 60, read_soak),
    Part("cluster", "verbs in a virtual machine, ucx between namespaces", (TEST, "--cluster"), 90, read_tests),
    Part("tidy", "clang-tidy", (TEST, "--tidy"), 120, read_tidy),
    measuring("instructions", "instructions of the small path", ("bench/instructions",), 30, read_instructions, needs=("valgrind",)),
    measuring("shm", "beside Debian's Open MPI and MPICH on one host",
              ("bench/vs_peers", "--ranks", "2,4", "--launches", "3", "--collectives",
               "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast", "--programs",
               "tutti,tutti-mapped,openmpi4,openmpi4-ucx,openmpi4-nocma,mpich4,ceiling"), 90, read_vs_peers, "shm.json"),
    measuring("two_hosts", "beside Open MPI and MPICH between two hosts (network namespaces), all-reduce", ("bench/two_hosts",), 60,
              read_two_hosts, "two_hosts.md", ("openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev", "iperf3")),
    measuring("selection", "the regret of the selector", ("bench/selection",), 90,
              lines_of("selection.md", r"^- (With(?:out)? a profile: .*)"), "selection.md"),
    measuring("simulator", "the simulator beside this machine", ("bench/sim-validation",), 60,
              lines_of("sim-validation.md", r"^- (Ranks .*)"), "sim-validation.md"),
    measuring("train", "training beside PyTorch over Gloo", ("bench/train_vs_torch",), 60, read_train, "train_vs_torch.md"),
    measuring("torch_vs_gloo", "the backend of torch.distributed beside Gloo", ("bench/torch_vs_gloo",), 60, read_torch_vs_gloo,
              "torch_vs_gloo.md"),
)
