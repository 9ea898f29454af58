"""A run's page: bench/results/shm.md is written whole from the raw figures."""

from . import figures, programs, targets

MODES = {"back": "back-to-back", "used": "as used", "apart": "a barrier before each call"}


def size_text(size):
    for unit, letter in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {letter}"
    return f"{size} B" if size else "–"


def launches_text(launches):
    return f"{launches} launch{'es' if launches > 1 else ''}"


def us_text(us):
    """Three figures that count, thousands apart."""
    if us >= 1000:
        return f"{us:,.0f}".replace(",", " ")
    return f"{us:.3g}"


def figure_text(figure):
    if figure is None:
        return "–"
    spread = f" ({us_text(figure.least)}–{us_text(figure.most)})" if figure.most > figure.least else ""
    return us_text(figure.us) + spread


def ratio_text(ratio, interval=True):
    if ratio is None:
        return "–"
    spread = f" ({ratio.least:.2f}–{ratio.most:.2f})" if interval and ratio.most > ratio.least else ""
    return f"{ratio.value:.2f}{spread}"


def mark(met, decided=True):
    return {True: "met", False: "**missed**", None: ""}[met] + ("" if met is None or decided else ", not decided")


def peer_text(figure):
    return "–" if figure is None else f"{figure_text(figure)} {figure.program}"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


class Page:
    """`raw` is what vs_peers keeps of a run: about, columns, rows, machine, notes."""

    def __init__(self, raw):
        self.about, self.machine, self.notes = raw["about"], raw["machine"], raw["notes"]
        self.cores = self.about["cores"]
        self.cells = figures.cells_of(raw["rows"], self.about["groups"])

    def text(self, plot=None):
        lines = [*self._head(), *self._overview()]
        if plot:
            lines += ["", f"![Time of a call, and ratios to the best peer]({plot})"]
        for ranks in dict.fromkeys(key[0] for key in self.cells):
            for mode in ("back", "used"):
                lines += self._comparison(ranks, mode)
        lines += [*self._apart(), *self._mapped(), *self._machine(), *self._ends()]
        return "\n".join(lines) + "\n"

    def _head(self):
        about = self.about
        lines = ["# Shared memory: Tutti beside its peers", "",
                 "Written by `bench/vs_peers`; not to be edited. The protocol stands in "
                 "`bench/vs_peers_lib/protocol.py`, the raw figures beside this file.", ""]
        if about["quick"]:
            lines += ["**A quick run** (one launch, few sizes): it shows that all works. Its figures are a sketch and "
                      "its verdicts decide nothing.", ""]
        if about["load"] > 0.5:
            lines += [f"**The machine was not idle**: its load was {about['load']:.1f} when the run began.", ""]
        versions = "; ".join(f"{name}: {version}" for name, version in about["versions"].items())
        return lines + [
            f"- machine: {about['machine']}",
            f"- date: {about['date']}; the run took {about['minutes']:.0f} min; {launches_text(about['launches'])}",
            f"- command: `{about['command']}`",
            f"- {versions}",
            *(f"- measured again: {again['date']}, {again['commit']}, {launches_text(again['launches'])}: "
              f"`{again['command']}`" for again in about.get("again", ())),
            "",
            "Microseconds a call: mean over calls of the slowest rank, f32 sum, out of place (broadcast in place), "
            "plain malloc'ed memory unless said; S as nccl-tests defines it. Medians over launches, the least and the "
            "greatest in brackets. A ratio is the median of pairs of samples that were taken within a second, in one "
            "state of the machine (a short exchange by hand is timed before and after each); their quartiles are in "
            f"brackets. A cell is *not decided* where the aim lies between them, or there are fewer than "
            f"{figures.FEWEST_PAIRS} pairs. *Back-to-back*: the same unmodified buffers call after call. *As used*: every input "
            "written before each call and every output read after it, that time subtracted.",
            "",
            "*Debian's best* is the fastest of Debian's Open MPI (ob1 with and without CMA, UCX, coll/sm) and MPICH "
            "(with and without CMA); the *others* are newer releases from PyPI, oneCCL, and Gloo, alone and in "
            "PyTorch. The *ceiling* is the same "
            "exchange by hand through memory that all ranks can reach: the least bytes that can move, all cores at "
            "work; it is a bound, measured by the same loop in the same run."]

    def _overview(self):
        met, missed = figures.tally(self.cells, self.cores)
        lines = ["", "## The targets", "",
                 f"Plain memory ÷ Debian's best: {len(met)} of {len(met) + len(missed)} cells meet their target."]
        beyond = sum(cell.out_of_reach(self.cores) for cell in missed)
        if beyond:
            lines[-1] += (f" Of those that miss, {beyond} have a target that the ceiling, the exchange by hand through "
                          "memory that both can reach, missed too in this run.")
        mapped_met, mapped_missed = figures.mapped_tally(self.cells, self.cores)
        if mapped_met or mapped_missed:
            lines += ["", f"Memory that can be mapped ÷ ceiling ≤ {targets.MAPPED}, from "
                      f"{size_text(targets.MAPPED_FROM)} on: {len(mapped_met)} of "
                      f"{len(mapped_met) + len(mapped_missed)}."]
        for mode in ("back", "used"):
            keys = [key for key in self.cells if key[0] == 2 and key[1] == mode and key[2] in targets.FIVE]
            if not keys:
                continue
            lines += ["", f"2 ranks, {MODES[mode]}: ratio / target", ""]
            sizes = dict.fromkeys(key[3] for key in keys)
            lines += table(["S", *targets.FIVE],
                           [[size_text(size), *(self._brief(2, mode, c, size) for c in targets.FIVE)]
                            for size in sizes])
        return lines + self._every_peer() + self._reach()

    def _every_peer(self):
        """Cells in which a peer is ahead, and how many are decided."""
        verdicts = {key: figures.ahead(cell) for key, cell in self.cells.items() if key[1] != "apart"}
        judged = [key for key, ahead in verdicts.items() if ahead is not None]
        if not judged:
            return []
        won = sum(verdicts[key] is True for key in judged)
        rows = []
        for key in judged:
            ratio, program = self.cells[key].hardest(programs.DEBIAN, programs.OTHERS)
            if verdicts[key] is not True and ratio is not None:
                ranks, mode, collective, size = key
                rows.append([str(ranks), MODES[mode], collective, size_text(size), program, ratio_text(ratio),
                             "–" if ratio.pairs is None else str(ratio.pairs),
                             "a peer is ahead" if verdicts[key] is False else "not decided"])
        return ["", "## Beside every peer", "",
                f"Plain memory: in {won} of {len(judged)} cells no peer is faster. The others, with the peer that is "
                "furthest ahead:", "",
                *table(["ranks", "", "collective", "S", "peer", "ratio", "pairs", ""], rows)] if rows else [
                    "", "## Beside every peer", "", f"Plain memory: in all {won} cells no peer is faster."]

    def _reach(self):
        """How far from the ceiling, here and where the targets were set: that does not depend on the peers."""
        cells = {key[2:]: cell for key, cell in self.cells.items()
                 if key[:2] == (2, "back") and targets.there_to_ceiling(*key[2:])}
        near, rows = 0, []
        for size in dict.fromkeys(size for _, size in cells):
            row = [size_text(size)]
            for collective in targets.FIVE:
                cell, there = cells.get((collective, size)), targets.there_to_ceiling(collective, size)
                here = cell.ratio_to(cell.ceiling) if cell else None
                if here is None:
                    row.append("–")
                    continue
                near += here.value <= there
                text = f"{here.value:.2f} / {there:.2f}"
                row.append(text if here.value <= there else f"**{text}**")
            rows.append(row)
        count = sum(text != "–" for row in rows for text in row[1:])
        if count == 0:
            return []
        return ["", "2 ranks, back-to-back: time ÷ the ceiling of this machine / what the target was ÷ the ceiling of "
                "the machine where it was set (there a cache line crossed between the cores in 53 ns). How far peers "
                f"are from the ceiling differs between machines; this does not depend on them. As near as the target "
                f"was, or nearer: {near} of {count}.", "",
                *table(["S", *targets.FIVE], rows)]

    def _brief(self, *key):
        cell = self.cells.get(key)
        if cell is None:
            return "–"
        ratio, target = cell.ratio_to(cell.best(programs.DEBIAN)), cell.target(self.cores)
        text = ratio_text(ratio, interval=False) + (f" / {target:.2f}" if target is not None else "")
        return f"**{text}**" if cell.verdict(self.cores) is False else text

    def _comparison(self, ranks, mode):
        cells = [cell for key, cell in self.cells.items() if key[:2] == (ranks, mode)]
        if not cells:
            return []
        crowd = f" on {self.cores} cores" if ranks > self.cores else ", each with a core of its own"
        lines = ["", f"## {ranks} ranks{crowd}, {MODES[mode]}"]
        for collective in dict.fromkeys(cell.collective for cell in cells):
            rows = []
            for cell in cells:
                if cell.collective != collective:
                    continue
                debian, others = cell.best(programs.DEBIAN), cell.best(programs.OTHERS)
                target = cell.target(self.cores)
                ratio = cell.ratio_to(debian)
                decided = ratio is None or target is None or ratio.decides(target)
                rows.append([size_text(cell.size), figure_text(cell.figures.get("tutti")), peer_text(debian),
                             ratio_text(ratio), f"{target:.2f}" if target is not None else "",
                             mark(cell.verdict(self.cores), decided), peer_text(others),
                             ratio_text(cell.ratio_to(others), False),
                             figure_text(cell.ceiling), ratio_text(cell.ratio_to(cell.ceiling), False)])
            lines += ["", f"### {collective}", ""]
            lines += table(["S", "Tutti, µs", "Debian's best, µs", "ratio", "target", "", "best of the others, µs",
                            "ratio", "ceiling, µs", "ratio"], rows)
        return lines

    def _apart(self):
        cells = [cell for key, cell in self.cells.items() if key[1] == "apart"]
        if not cells:
            return []
        rows = [[size_text(cell.size), figure_text(cell.figures.get("tutti")), peer_text(cell.best(programs.DEBIAN)),
                 ratio_text(cell.ratio_to(cell.best(programs.DEBIAN))), peer_text(cell.best(programs.OTHERS)),
                 figure_text(cell.ceiling)] for cell in cells]
        return ["", "## Broadcast as the last rank sees it", "",
                "2 ranks, a barrier before each call, so that the root cannot run ahead.", "",
                *table(["S", "Tutti, µs", "Debian's best, µs", "ratio", "best of the others, µs", "ceiling, µs"], rows)]

    def _mapped(self):
        rows = []
        for (ranks, mode, collective, size), cell in self.cells.items():
            if mode == "apart" or size == 0 or (ranks > self.cores and "tutti-window" not in cell.figures):
                continue
            row = [MODES[mode], f"{ranks} {collective}", size_text(size), figure_text(cell.ceiling)]
            for name in ("tutti-mapped", "tutti-window", "tutti-threads"):
                row += [figure_text(cell.figures.get(name)), ratio_text(cell.ratio_to(cell.ceiling, name), False),
                        mark(cell.mapped_verdict(name, self.cores))]
            rows.append(row)
        if not rows:
            return []
        return ["", "## Memory that peers can reach", "",
                "From `tuttiMemAlloc`, the same registered as windows, and of thread ranks (malloc'ed), beside the ceiling. "
                f"Target: ≤ {targets.MAPPED} from {size_text(targets.MAPPED_FROM)} on, back-to-back.", "",
                *table(["mode", "ranks, collective", "S", "ceiling, µs", "tuttiMemAlloc, µs", "ratio", "", "in windows, µs",
                        "ratio", "", "threads, µs", "ratio", ""], rows)]

    def _machine(self):
        lines = []
        for unit in ("ns", "GB/s"):
            rows = []
            for name in self.machine[0][unit] if self.machine else ():
                values = {launch: one[unit][name] for launch, one in enumerate(self.machine)}
                rows.append([name, figure_text(figures.Figure.of(name, values))])
            lines += ["", *table(["what", unit], rows)] if rows else []
        return ["", "## The machine", *lines] if lines else []

    def _ends(self):
        return ["", "## Notes", "", *(f"- {note}" for note in self.notes)] if self.notes else []
