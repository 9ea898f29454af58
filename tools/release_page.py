"""The parts of tools/release, what their output says, the page docs/release.md, and the figures of README.md."""
import dataclasses
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import textwrap
import typing
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
from vs_peers_lib import figures  # noqa: E402

# ---- what the output of a part says: {"figure": a line, "missed": [a line each], ...} -----------------------------------


def read_tests(log):
    """Of a log of tools/test: ctest's totals, the failed tests, and what report.py lists as left out."""
    totals = re.findall(r"^\d+% tests passed, (\d+) tests failed out of (\d+)", log, re.M)
    if not totals:
        raise ValueError("no run of ctest")
    failed, ran = map(int, totals[-1])
    seconds = re.findall(r"^Total Test time \(real\) = +([\d.]+)", log, re.M)
    tail = log.rpartition("% tests passed")[2]
    names = re.findall(r"^\s*\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run|ILLEGAL|Bus error)[^)]*\)", tail, re.M)
    left_out = list(dict.fromkeys(re.findall(r"^  (?:not built|skipped): .*", log, re.M)))
    skipped = sum("skipped:" in line for line in left_out)
    return {"figure": f"{ran} tests, {failed} failed, {skipped} with something skipped; tests {float(seconds[-1]) / 60:.0f} min",
            "missed": [f"failed: {name}" for name in names] + [line.strip() for line in left_out]}


def read_full(log):
    """As read_tests, and what docs/reliability.md's promises come to."""
    return {**read_tests(log), "promises": promises(ROOT / "build/release/tests.xml")}


def read_tidy(log):
    findings = len(re.findall(r": (?:warning|error): ", log))
    return {"figure": f"{findings} findings", "missed": []}


def read_fuzz(log):
    done = re.findall(r"^(\w+)_fuzz: Done (\d+) runs in (\d+) second", log, re.M)
    if not done:
        raise ValueError("no target ended")
    return {"figure": "; ".join(f"{name} {int(runs):,} inputs in {seconds} s" for name, runs, seconds in done),
            "missed": re.findall(r"^== (.*found a defect).*", log, re.M)}


def read_soak(log):
    """Of tools/test --soak: the random programs of tests/attack, and the floods of connections."""
    programs = re.findall(r"^(\d+ programs\b.*)$", log, re.M)
    floods = re.findall(r"^(\d+ starts.*)$", log, re.M)
    if not programs:
        raise ValueError("no programs ended")
    return {"figure": "; ".join([programs[-1], *floods]), "missed": re.findall(r"^  ((?:hang|crash|data|alarm|silent|code|unnamed|slow|inexact): .*)$", log, re.M)}


def read_torch(log):
    ran = re.findall(r"^Ran (\d+) tests? in ([\d.]+)s", log, re.M)
    if not ran:
        raise ValueError("no run of unittest")
    ended = re.findall(r"^(?:OK|FAILED)(?: \(.*\))?$", log, re.M)[-1]
    return {"figure": f"{sum(int(n) for n, _ in ran)} tests: {ended}; PyTorch on libnccl.so.2: "
                      f"{' '.join(re.findall(r'[0-9]+ of [0-9]+ [a-z]+', log)[:1]) or 'runs'}",
            "missed": [f"skipped: {line}" for line in re.findall(r"^(\S+ \(.*\)) \.\.\. skipped", log, re.M)]}


def read_instructions(log):
    rows = re.findall(r"^\| (\w+) +\| +([\d.]+) \|$", log, re.M)
    if not rows:
        raise ValueError("no row")
    return {"figure": "; ".join(f"{name} {count}" for name, count in rows), "missed": []}


def read_vs_peers(_log):
    """Plain memory beside Debian's best peer, back-to-back, by number of ranks."""
    raw = json.loads((ROOT / "bench/results/shm.json").read_text())
    cells = figures.cells_of(raw["rows"], raw["about"]["groups"])
    words, missed = [], []
    for ranks in sorted({cell.ranks for cell in cells.values()}):
        ratios = [(cell.ratio_to(cell.best("debian")), cell) for cell in cells.values()
                  if cell.ranks == ranks and cell.mode == "back"]
        ratios = [(ratio.value, cell) for ratio, cell in ratios if ratio]
        if not ratios:
            continue
        values = [value for value, _ in ratios]
        words.append(f"{ranks} ranks: {min(values):.2f} to {max(values):.2f} of the time of the fastest of Debian's Open MPI and "
                     f"MPICH, median {statistics.median(values):.2f}, faster in {sum(v < 1 for v in values)} of {len(values)} cells")
        missed += [f"{ranks} ranks, {cell.collective} of {cell.size} bytes: {value:.2f}" for value, cell in ratios if value >= 1]
    return {"figure": "; ".join(words), "missed": missed}


def page_lines(page, pattern):
    def read(_log):
        found = re.findall(pattern, (ROOT / "bench/results" / page).read_text(), re.M)
        if not found:
            raise ValueError(f"bench/results/{page} has no line as {pattern}")
        return {"figure": " ".join(found), "missed": []}
    return read


def read_two_hosts(_log):
    rows = re.findall(r"^\| (\d+) \|.*?\| \**([\d.]+)\**(?: \(≤ ([\d.]+)\))? \| [\d.]+ \| ",
                      (ROOT / "bench/results/two_hosts.md").read_text(), re.M)
    if not rows:
        raise ValueError("bench/results/two_hosts.md has no rows")
    return {"figure": "all-reduce ÷ the faster of Open MPI and MPICH: " + ", ".join(f"{size} B {ratio}" for size, ratio, _ in rows),
            "missed": [f"{size} bytes: {ratio}, aim {aim}" for size, ratio, aim in rows if aim and float(ratio) > float(aim)]}


def read_train(_log):
    """The communication part of a step beside PyTorch's over Gloo: the last column of the medians, by mode."""
    rows = re.findall(r"^\| (DDP|ZeRO-3) \| median \|.*\| ([\d.]+) \|$", (ROOT / "bench/results/train_vs_torch.md").read_text(), re.M)
    if not rows:
        raise ValueError("bench/results/train_vs_torch.md has no rows")
    least, most = min(float(ratio) for _, ratio in rows), max(float(ratio) for _, ratio in rows)
    return {"figure": f"communication adds to a step {least:.2f} to {most:.2f} of what it adds to PyTorch's over Gloo: "
                      + ", ".join(f"{mode} {ratio}" for mode, ratio in rows),
            "missed": [f"{mode}: {ratio}, aim 0.5" for mode, ratio in rows if float(ratio) > 0.5]}


def read_torch_vs_gloo(_log):
    """How many times as fast as Gloo from Python, by size: the least and the most of all calls and numbers of ranks."""
    rows = re.findall(r"^\| \w+ \| (\d+) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|", (ROOT / "bench/results/torch_vs_gloo.md").read_text(), re.M)
    if not rows:
        raise ValueError("bench/results/torch_vs_gloo.md has no rows")
    by_size = {}
    for size, ratio in rows:
        by_size.setdefault(int(size), []).append(float(ratio))
    return {"figure": "from Python, Gloo's time ÷ Tutti's: "
                      + ", ".join(f"{size} B {min(r):.0f} to {max(r):.0f}" for size, r in sorted(by_size.items())),
            "missed": [f"{size} bytes: {min(r):.1f}, aim {aim}" for size, r in sorted(by_size.items())
                       if min(r) < (aim := 10 if size < 1 << 20 else 4)]}


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    title: str
    command: tuple
    minutes: int  # it is cut off after these
    read: typing.Callable


TEST = "tools/test"
PARTS = (
    Part("fresh", "the README's commands in a bare Debian root", (TEST, "--fresh"), 120, read_tests),
    Part("full", "all tests, the exhaustive ones too", (TEST, "--full"), 180, read_full),
    Part("tidy", "clang-tidy", (TEST, "--tidy"), 120, read_tidy),
    Part("asan", "AddressSanitizer and UndefinedBehaviorSanitizer", (TEST, "--asan"), 180, read_tests),
    Part("tsan", "ThreadSanitizer", (TEST, "--tsan"), 240, read_tests),
    Part("fuzz", "libFuzzer, each target for 300 s", (TEST, "--fuzz", "300"), 120, read_fuzz),
    Part("soak", "random programs with faults, floods of connections", (TEST, "--soak", "300"), 30, read_soak),
    Part("cluster", "verbs in a virtual machine, ucx between namespaces", (TEST, "--cluster"), 90, read_tests),
    Part("torch", "the backend of torch.distributed, PyTorch on libnccl.so.2", (TEST, "--torch"), 90, read_torch),
    Part("instructions", "instructions of the small path", ("bench/instructions",), 30, read_instructions),
    Part("shm", "beside Open MPI and MPICH on this host", ("bench/vs_peers", "--ranks", "2,4", "--launches", "3", "--collectives",
         "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast", "--programs",
         "tutti,tutti-mapped,openmpi4,openmpi4-ucx,openmpi4-nocma,mpich4,ceiling"), 90, read_vs_peers),
    Part("two_hosts", "beside them between two hosts", ("bench/two_hosts",), 60, read_two_hosts),
    Part("selection", "the regret of the selector", ("bench/selection",), 90,
         page_lines("selection.md", r"^- (With(?:out)? a profile: .*)")),
    Part("simulator", "the simulator beside this machine", ("bench/sim-validation",), 60,
         page_lines("sim-validation.md", r"^- (Ranks .*)")),
    Part("train", "training beside PyTorch over Gloo", ("bench/train_vs_torch",), 60, read_train),
    Part("torch_vs_gloo", "the backend of torch.distributed beside Gloo", ("bench/torch_vs_gloo",), 60, read_torch_vs_gloo),
)

# ---- the promises of docs/reliability.md -------------------------------------------------------------------------------


def promises(results):
    """[[section, promise, passed, failed, skipped, seconds]] from ctest's XML; promises whose tests have no names are left out."""
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
        wanted = [re.escape(name).replace(r"\*", r"[\w.]*") for name in re.findall(r"`([A-Za-z][\w.*]*)`", cells[1])]
        pattern = re.compile("|".join(rf"{name}(?:\.[\w.]+)?" for name in wanted) or r"(?!)")
        mine = [(status, seconds) for name, status, seconds in cases if pattern.fullmatch(name)]
        if mine:
            count = [sum(status == kind for status, _ in mine) for kind in ("run", "fail", "notrun")]
            rows.append([section, cells[0], *count, round(sum(seconds for _, seconds in mine), 1)])
    return rows


# ---- the page ----------------------------------------------------------------------------------------------------------


def machine():
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"^MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M)
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    return (f"{model[1] if model else platform.machine()}, {len(os.sched_getaffinity(0))} processors, "
            f"{int(memory[1]) >> 20} GiB; {system[1] if system else platform.system()}, Linux {platform.release()}; {compiler}")


def subject_of(commit):
    return subprocess.run(["git", "log", "-1", "--format=%s", commit], capture_output=True, text=True, cwd=ROOT).stdout.strip()


def table(known, absent):
    lines = ["| part | command | result | took | figures |", "|---|---|---|---|---|"]
    for part, result in known:
        lines.append(f"| {part.title} | `{' '.join(part.command)}` | {'passed' if result['passed'] else '**failed**'} "
                     f"| {result['seconds'] / 60:.0f} min | {result['figure'].replace('|', '/')} |")
    return lines + [f"| {part.title} | `{' '.join(part.command)}` | not run | | |" for part in absent]


def missed_lines(known):
    lines = []
    for part, result in known:
        if result["missed"]:
            lines += [f"{part.title[0].upper()}{part.title[1:]} (`{' '.join(part.command[:2])}`):", ""]
            lines += [f"- {line}" for line in result["missed"]] + [""]
    return lines or ["Nothing.", ""]


def write(commit, results):
    """docs/release.md, and the figures of README.md, from {part: result}."""
    known = [(part, results[part.name]) for part in PARTS if part.name in results]
    absent = [part for part in PARTS if part.name not in results]
    ended = sorted(result["ended"] for _, result in known)
    lines = ["# What was run, at one commit", "",
             "Written by `tools/release`; not to be edited. The figures in README.md and the results of the promises in",
             "[reliability.md](reliability.md) are those of this page.", "",
             f"- commit: {commit[:10]}, {subject_of(commit)}",
             f"- date: {ended[0]} to {ended[-1]}" if ended else "- date: nothing was run"]
    lines += [f"- machine: {words}" for words in dict.fromkeys(result["machine"] for _, result in known)]
    lines += ["", *table(known, absent), "", "## Missed and left out", "", *missed_lines(known)]
    rows = results.get("full", {}).get("promises", [])
    if rows:
        lines += ["## The promises of reliability.md", "",
                  "Tests of each promise in `tools/test --full`; seconds are the sum over its tests.", "",
                  "| section | promise | passed | failed | skipped | s |", "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    (ROOT / "docs/release.md").write_text("\n".join(lines).rstrip() + "\n")
    readme = ROOT / "README.md"
    readme.write_text(with_figures(readme.read_text(), commit, known))


# ---- the figures of README.md ------------------------------------------------------------------------------------------

FIGURES = re.compile(r"(?<=<!-- release: written by tools/release -->\n).*?(?=<!-- end of release -->)", re.S)
IN_README = ("full", "shm", "two_hosts", "train", "torch_vs_gloo")


def without_figures(readme):
    return FIGURES.sub("", readme)


def with_figures(readme, commit, known):
    """The README with the lines of these parts. ValueError if it has no place for them."""
    if not FIGURES.search(readme):
        raise ValueError("README.md lacks the comments between which its figures stand")
    lines = [f"- {part.title[0].upper()}{part.title[1:]}: {result['figure']}{'' if result['passed'] else ' (**failed**)'}."
             for part, result in known if part.name in IN_README]
    lines = [line for long in lines for line in textwrap.wrap(long, 120, subsequent_indent="  ", break_long_words=False)]
    text = f"At commit {commit[:10]} ([docs/release.md](docs/release.md) says on which machine, and what was missed):\n\n"
    return FIGURES.sub(lambda _: text + "\n".join(lines) + "\n", readme)
