"""A run as one picture: above, what a call takes between two ranks; below, that time ÷ Debian's best. Plain SVG."""

import html
import math

from . import figures, report, targets

PANEL_WIDTH, PANEL_HEIGHT, GAP, LEFT, TOP, BETWEEN = 224, 210, 22, 66, 112, 62
WIDTH = LEFT + 5 * PANEL_WIDTH + 4 * GAP + 24
HEIGHT = TOP + 2 * PANEL_HEIGHT + BETWEEN + 64
INK, FAINT, GRID = "#222831", "#7b8794", "#e4e8ec"
STYLE = ("text{font-family:-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:" + INK + "}"
         ".tick{font-size:10.5px;fill:" + FAINT + "}.name{font-size:13px;font-weight:600}"
         ".axis{font-size:11.5px;fill:" + FAINT + "}.key{font-size:12px}.title{font-size:19px;font-weight:700}"
         ".under{font-size:12px;fill:" + FAINT + "}")

# name, colour, width, dashes
TIMES = [("ceiling", "#9aa5b1", 1.6, "2 3"), ("best of the others", "#c9a227", 1.6, "6 3"),
         ("Debian's best", "#d1495b", 2.0, ""), ("Tutti, mapped memory", "#2a9d8f", 1.8, "7 3"),
         ("Tutti", "#1d4ed8", 2.8, "")]
RATIOS = [(2, "back", "2 ranks, back-to-back", "#1d4ed8", 2.6, ""),
          (2, "used", "2 ranks, as used", "#7c3aed", 1.9, "6 3"),
          (4, "back", "4 ranks", "#ea8c00", 1.7, ""), (8, "back", "8 ranks", "#0f766e", 1.7, "2 3")]


class Axis:
    """A logarithmic scale from `low` to `high` onto pixels from `start` to `end`."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = low, high, start, end

    def at(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def decades(self):
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def _text(x, y, text, kind, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'


def _line(x1, y1, x2, y2, colour, width=1.0, dashes=""):
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"{dashed}/>')


def _curve(points, colour, width, dashes):
    if not points:
        return []
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width * 0.95:.1f}" fill="{colour}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"'
            f'{dashed}/>', *dots]


def _key(entries, y):
    """A row of line samples with names."""
    parts, x = [], LEFT
    for name, colour, width, dashes in entries:
        parts += [_line(x, y - 4, x + 26, y - 4, colour, width, dashes), _text(x + 32, y, name, "key")]
        x += 56 + 6.6 * len(name)
    return parts


def _us(value):
    if value >= 1e6:
        return f"{value / 1e6:g} s"
    return f"{value / 1e3:g} ms" if value >= 1e3 else f"{value:g} µs"


class Picture:
    """Panels for the collectives of the table of targets."""

    def __init__(self, raw):
        self.about = raw["about"]
        self.cells = figures.cells_of(raw["rows"], self.about["groups"])
        self.sizes = sorted({key[3] for key in self.cells if key[2] in targets.FIVE})

    def _series(self, name, collective):
        """(bytes, µs) of two ranks, back-to-back."""
        found = []
        for size in self.sizes:
            cell = self.cells.get((2, "back", collective, size))
            if cell is None:
                continue
            figure = {"ceiling": cell.ceiling, "best of the others": cell.best("others"),
                      "Debian's best": cell.best("debian"), "Tutti, mapped memory": cell.figures.get("tutti-mapped"),
                      "Tutti": cell.figures.get("tutti")}[name]
            if figure is not None and figure.us > 0:
                found.append((size, figure.us))
        return found

    def _ratios(self, ranks, mode, collective):
        """(bytes, ratio, target or None)."""
        found = []
        for size in self.sizes:
            cell = self.cells.get((ranks, mode, collective, size))
            ratio = cell and cell.ratio_to(cell.best("debian"))
            if ratio is not None and ratio.value > 0:
                found.append((size, ratio.value, cell.target(self.about["cores"])))
        return found

    @staticmethod
    def _frame(x, top, across, up, ticks, label):
        """Grid and numbers; those of the vertical axis only beside the first panel."""
        parts = []
        for value in ticks:
            parts.append(_line(x, up.at(value), x + PANEL_WIDTH, up.at(value), GRID))
            if x == LEFT:
                parts.append(_text(x - 7, up.at(value) + 3.5, label(value), "tick", "end"))
        for size in (8, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20):
            if across.low <= size <= across.high:
                parts.append(_line(across.at(size), top, across.at(size), top + PANEL_HEIGHT, GRID))
                name = report.size_text(size).replace("iB", "")
                parts.append(_text(across.at(size), top + PANEL_HEIGHT + 14, name, "tick", "middle"))
        return parts

    def svg(self):
        facts = [self.about["machine"], self.about["date"], report.launches_text(self.about["launches"])]
        facts += ["a quick run, only a sketch"] if self.about["quick"] else []
        parts = [_text(LEFT - 44, 34, "Collectives through shared memory", "title"),
                 _text(LEFT - 44, 54, " · ".join(facts), "under")]
        parts += _key(TIMES, 82) + _key([entry[2:] for entry in RATIOS], TOP + PANEL_HEIGHT + BETWEEN - 18)
        times = [us for name, *_ in TIMES for c in targets.FIVE for _, us in self._series(name, c)]
        ratios = [one[1] for entry in RATIOS for c in targets.FIVE for one in self._ratios(*entry[:2], c)]
        if not self.sizes or not times:
            parts.append(_text(LEFT, TOP + 40, "Nothing was measured between two ranks.", "axis"))
            return self._whole(parts)
        second = TOP + PANEL_HEIGHT + BETWEEN
        up = Axis(min(times) / 1.6, max(times) * 1.6, TOP + PANEL_HEIGHT, TOP)
        ratio_up = Axis(min([0.1, *ratios]) / 1.1, max([2.0, *ratios]) * 1.1, second + PANEL_HEIGHT, second)
        ratio_ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
                       if ratio_up.low <= tick <= ratio_up.high]
        for column, collective in enumerate(targets.FIVE):
            x = LEFT + column * (PANEL_WIDTH + GAP)
            across = Axis(self.sizes[0] / 1.5, max(self.sizes[-1], 2 * self.sizes[0]) * 1.5, x, x + PANEL_WIDTH)
            parts.append(_text(x + 2, TOP - 8, collective.replace("_", "-"), "name"))
            parts += self._frame(x, TOP, across, up, up.decades(), _us)
            for name, *look in TIMES:
                parts += _curve([(across.at(size), up.at(us)) for size, us in self._series(name, collective)], *look)
            parts += self._frame(x, second, across, ratio_up, ratio_ticks, lambda value: f"{value:g}")
            parts += self._ratio_panel(x, across, ratio_up, collective)
        foot = second + PANEL_HEIGHT + 40
        parts.append(_text(LEFT - 44, foot, "Above: time of a call between 2 processes, plain memory, back-to-back. "
                           "Below: Tutti ÷ the best of Debian's Open MPI and MPICH (less is better; thick bars: "
                           "targets of the blue line).", "axis"))
        return self._whole(parts)

    def _ratio_panel(self, x, across, up, collective):
        parts = [_line(x, up.at(1), x + PANEL_WIDTH, up.at(1), FAINT, 1.3)]
        for ranks, mode, _name, *look in RATIOS:
            points = self._ratios(ranks, mode, collective)
            for size, _ratio, target in points if (ranks, mode) == (2, "back") else ():
                if target is not None:
                    y = max(min(up.at(target), up.start), up.end)
                    parts.append(_line(across.at(size) - 8, y, across.at(size) + 8, y, "#93b4f5", 4))
            parts += _curve([(across.at(size), up.at(ratio)) for size, ratio, _ in points], *look)
        return parts

    @staticmethod
    def _whole(parts):
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
                          f'height="{HEIGHT}">', f"<style>{STYLE}</style>",
                          f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def svg(raw):
    return Picture(raw).svg()
