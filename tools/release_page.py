"""The page docs/release.md and the figures of README.md, from the results of tools/release."""
import os
import pathlib
import platform
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import release_commits  # noqa: E402
from vs_peers_lib import speed  # noqa: E402

IN_README = ("full", "shm", "two_hosts", "train", "torch_vs_gloo")


def machine():
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"^MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M)
    return (f"{model[1] if model else platform.machine()}, {len(os.sched_getaffinity(0))} processors, "
            f"{int(memory[1]) >> 20} GiB; {system[1] if system else platform.system()}, Linux {platform.release()}")


def words_of(part):
    return part.title[0].upper() + part.title[1:]


def when(result, commit):
    """Empty if the result is of this commit; otherwise of which."""
    old = result["commit"]
    if old == commit:
        return ""
    since = subprocess.run(["git", "rev-list", "--count", f"{old}..{commit}", "--"], capture_output=True, text=True, cwd=ROOT)
    if since.returncode:
        return f" at {old[:10]}, which this repository does not have"
    same = ", the same program" if release_commits.same_program(old, commit) else ""
    return f" at {old[:10]}, {since.stdout.strip()} commits before{same}"


def table(commit, known, absent):
    lines = ["| part | command | result | took | figures |", "|---|---|---|---|---|"]
    for part, result in known:
        took = f"{result['seconds'] / 60:.0f} min" + (f"; load before {result['load']:.1f}" if part.measures else "")
        words = ("passed" if result["passed"] else "**failed**") + when(result, commit)
        lines.append(f"| {part.title} | `{' '.join(part.command)}` | {words} | {took} | {result['figure'].replace('|', '/')} |")
    return lines + [f"| {part.title} | `{' '.join(part.command)}` | not run | | |" for part in absent]


def missed_lines(known):
    lines = []
    for part, result in known:
        if result["missed"]:
            lines += [f"{words_of(part)} (`{' '.join(part.command[:2])}`):", ""]
            lines += [f"- {line}" for line in result["missed"]] + [""]
    return lines or ["Nothing.", ""]


def machine_lines(known):
    parts = {}
    for part, result in known:
        parts.setdefault(result["machine"], []).append(part.name)
    if len(parts) < 2:
        return [f"- machine: {words}" for words in parts]
    return [f"- machine of {', '.join(names)}: {words}" for words, names in parts.items()]


def write(parts, commit, results):
    """Both, from {name of a part: its result}. The README keeps its figures until all of IN_README are there."""
    known = [(part, results[part.name]) for part in parts if part.name in results]
    absent = [part for part in parts if part.name not in results]
    subject = subprocess.run(["git", "log", "-1", "--format=%s", commit], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    ended = sorted(result["ended"] for _, result in known)
    lines = ["# What was run, and at which commit", "",
             "Written by `tools/release`; not to be edited. README.md takes its figures from here once all parts of it were run, and",
             "has older ones until then: each result's page says from which commit and date. The results of the promises in",
             "[reliability.md](reliability.md) are those of this page. All of it takes twelve hours on two processors; a part",
             "that was run at an older commit says so; the program is the same if only tests, documentation, comments",
             "of C++ and `tools/release` have changed since.", "",
             f"- commit: {commit[:10]}, {subject}", f"- date: {ended[0]} to {ended[-1]}" if ended else "- date: nothing was run yet",
             *machine_lines(known), "",
             *table(commit, known, absent), "", "## Missed and left out", "", *missed_lines(known)]
    rows = results.get("full", {}).get("promises", [])
    if rows:
        lines += ["## The promises of reliability.md", "",
                  "Tests of each promise in `tools/test --full`; seconds are the sum over its tests.", "",
                  "| section | promise | passed | failed | skipped | s |", "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    (ROOT / "docs/release.md").write_text("\n".join(lines).rstrip() + "\n")
    if set(results) >= {part.name for part in parts} & set(IN_README):
        readme = ROOT / "README.md"
        readme.write_text(with_figures(readme.read_text(), commit, known))
    if {"shm", "two_hosts"} <= set(results):
        speed.write(ROOT / "bench/results")


# ---- the figures of README.md ------------------------------------------------------------------------------------------


def with_figures(readme, commit, known):
    lines = [f"- {words_of(part)}{when(result, commit)}: {result['figure']}{'' if result['passed'] else ' (**failed**)'}."
             for part, result in known if part.name in IN_README]
    lines = [line for long in lines for line in textwrap.wrap(long, 120, subsequent_indent="  ", break_long_words=False)]
    text = f"At commit {commit[:10]} ([docs/release.md](docs/release.md) says on which machine, and what was missed):\n\n"
    return release_commits.FIGURES.sub(lambda _: text + "\n".join(lines) + "\n", readme)
