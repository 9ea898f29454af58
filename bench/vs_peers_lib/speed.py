"""README's chart: how many times as fast as the faster of Open MPI and MPICH, from the results in bench/results.

One picture for light pages and one for dark ones, speed.svg and speed-dark.svg, plain SVG.
"""

import html
import json
import math
import pathlib
import re
import statistics

from . import figures

WIDTH, HEIGHT, LEFT, TOP, PLOT, GAP = 860, 300, 46, 74, 170, 40
LIGHT = {"ink": "#1f2937", "faint": "#6b7280", "grid": "#e5e7eb", "bar": "#2563eb", "slow": "#9ca3af", "dot": "#1e3a8a", "on": "#ffffff"}
DARK = {"ink": "#e5e7eb", "faint": "#9ca3af", "grid": "#374151", "bar": "#60a5fa", "slow": "#6b7280", "dot": "#dbeafe", "on": "#0d1117"}
FONT = "-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def size_text(size):
    for unit in "B", "KiB", "MiB", "GiB":
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} TiB"


def one_host(path):
    """[(bytes, [how many times as fast, one for each collective])]: two processes, plain memory, back-to-back."""
    raw = json.loads(path.read_text())
    by_size = {}
    for cell in figures.cells_of(raw["rows"], raw["about"]["groups"]).values():
        ratio = cell.ratio_to(cell.best("debian")) if cell.ranks == 2 and cell.mode == "back" else None
        if ratio:
            by_size.setdefault(cell.size, []).append(1 / ratio.value)
    return sorted(by_size.items()), raw["about"]["machine"].split(",")[0]


def two_hosts(path):
    """The same of an all-reduce between two hosts."""
    rows = re.findall(r"^\| (\d+) \|.*?\| \**([\d.]+)\**(?: \(≤ [\d.]+\))? \| [\d.]+ \| ", path.read_text(), re.M)
    return [(int(size), [1 / float(ratio)]) for size, ratio in rows]


class Picture:
    def __init__(self, colours, top):
        self.colours, self.top, self.parts = colours, top, []

    def height(self, value):
        return PLOT * value / self.top

    def text(self, x, y, text, size=12, colour="ink", anchor="middle", weight=400):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
                          f'fill="{self.colours[colour]}">{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour, dashes=""):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{self.colours[colour]}"'
                          f'{f" stroke-dasharray={chr(34)}{dashes}{chr(34)}" if dashes else ""}/>')

    def panel(self, left, width, title, rows):
        base = TOP + PLOT
        self.text(left, TOP - 22, title, 13, anchor="start", weight=600)
        for value in range(math.ceil(self.top)):
            self.line(left, base - self.height(value), left + width, base - self.height(value),
                      "faint" if value == 1 else "grid", "4 3" if value == 1 else "")
            self.text(left - 8, base - self.height(value) + 4, f"{value}×", 11, "faint", "end")
        step = width / len(rows)
        for i, (size, values) in enumerate(rows):
            middle, median = left + step * (i + 0.5), statistics.median(values)
            self.parts.append(f'<rect x="{middle - step * 0.3:.1f}" y="{base - self.height(median):.1f}" '
                              f'width="{step * 0.6:.1f}" height="{self.height(median):.1f}" rx="2" '
                              f'fill="{self.colours["bar" if median > 1 else "slow"]}"/>')
            for value in values if len(values) > 1 else ():
                self.parts.append(f'<circle cx="{middle:.1f}" cy="{base - self.height(value):.1f}" r="2.2" '
                                  f'fill="{self.colours["dot"]}"/>')
            self.text(middle, base - 8, f"{median:.1f}×", 11, "on", weight=600)
            self.text(middle, base + 16, size_text(size), 10.5, "faint")

    def svg(self, described):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                f'font-family="{FONT}" role="img" aria-label="{html.escape(described)}">\n' + "\n".join(self.parts) + "\n</svg>\n")


def write(results: pathlib.Path):
    """Both pictures, into the folder of the results."""
    inside, machine = one_host(results / "shm.json")
    between = two_hosts(results / "two_hosts.md")
    top = 1.15 * max(value for rows in (inside, between) for _, values in rows for value in values)
    share = (WIDTH - 2 * LEFT - GAP - 12) / (len(inside) + len(between))
    described = "How many times as fast as the faster of Open MPI and MPICH"
    for name, colours in ("speed.svg", LIGHT), ("speed-dark.svg", DARK):
        picture = Picture(colours, top)
        picture.text(12, 24, described, 15, anchor="start", weight=700)
        picture.panel(LEFT, share * len(inside), "2 processes of a host: all-reduce and four others", inside)
        picture.panel(LEFT + share * len(inside) + GAP + 30, share * len(between), "2 hosts, TCP: all-reduce", between)
        picture.text(12, HEIGHT - 12, f"Bar: the median of five collectives; dots: each. {machine}; the hosts are network "
                     "namespaces. bench/results/shm.md, two_hosts.md", 10.5, "faint", "start")
        (results / name).write_text(picture.svg(described))
