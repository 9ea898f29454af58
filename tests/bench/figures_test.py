"""From raw figures to medians, ratios and verdicts, and to a page: held against figures worked out by hand."""

import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

from support import GROUPS, SOURCE, main, rows_of

from vs_peers_lib import figures, plot, report, speed, targets

EIGHT = (2, "back", "all_reduce", 8)
MEGABYTE = (2, "back", "all_gather", 1 << 20)
# Medians by launch of tutti: 0.2, 0.3, 0.1; of openmpi4: 0.5, 0.5, 0.4; of mpich4: 0.9, 0.45 (it sat one out).
ROWS = (rows_of("tutti", [[0.2, 0.1, 9.0], [0.3, 0.3, 0.3], [0.1, 0.1, 0.2]]) +
        rows_of("openmpi4", [[0.5], [0.6, 0.5, 0.4], [0.4]]) + rows_of("mpich4", [[0.9], [0.45]]) +
        rows_of("gloo", [[0.01], [0.01], [0.01]]) +
        rows_of("tutti", [[45.0]], MEGABYTE) + rows_of("mpich4", [[50.0]], MEGABYTE) +
        rows_of("ceiling", [[40.0]], MEGABYTE) + rows_of("ceiling-streaming", [[32.0]], MEGABYTE) +
        rows_of("tutti-mapped", [[40.0]], MEGABYTE) + rows_of("tutti-threads", [[41.0]], MEGABYTE))


def probed(program, by_launch, probes):
    """Rows of one cell with what was probed before and after each sample."""
    return [[*row, around] for row, around in zip(rows_of(program, by_launch), probes)]


def raw(rows):
    about = {"machine": "a machine", "cores": 2, "load": 0.0, "quick": False, "date": "today", "minutes": 1.0,
             "launches": 3, "command": "bench/vs_peers", "versions": {"Tutti": "this"}, "groups": GROUPS}
    return {"about": about, "notes": ["gloo: is told apart"], "machine": [{"ns": {"line": 50.0}, "GB/s": {}}],
            "columns": list(figures.COLUMNS), "rows": rows}


class Samples(unittest.TestCase):
    def test_are_of_the_slowest_rank_less_what_touching_took(self):
        self.assertEqual(figures.slowest([(5.0, 1.0), (7.0, 4.0), (3.5, 0.0)]), 4.0)

    def test_become_medians_of_launches_with_their_range(self):
        figure = figures.cells_of(ROWS, GROUPS)[EIGHT].figures["tutti"]
        self.assertEqual((figure.us, figure.least, figure.most), (0.2, 0.1, 0.3))


class Ratios(unittest.TestCase):
    def setUp(self):
        self.cells = figures.cells_of(ROWS, GROUPS)

    def test_are_of_medians_and_their_range_of_launches_that_both_took_part_in(self):
        cell = self.cells[EIGHT]
        ratio = cell.ratio_to(cell.best("debian"))
        self.assertEqual(cell.best("debian").program, "openmpi4")
        self.assertAlmostEqual(ratio.value, 0.4)
        self.assertAlmostEqual(ratio.least, 0.25)
        self.assertAlmostEqual(ratio.most, 0.6)
        to_mpich = cell.ratio_to(cell.figures["mpich4"])
        self.assertAlmostEqual(to_mpich.value, 0.2 / 0.675)
        self.assertAlmostEqual(to_mpich.least, 0.2 / 0.9)
        self.assertAlmostEqual(to_mpich.most, 0.3 / 0.45)

    def test_are_missing_where_a_program_is(self):
        self.assertIsNone(self.cells[EIGHT].ratio_to(self.cells[EIGHT].ceiling))
        self.assertIsNone(self.cells[EIGHT].ratio_to(self.cells[EIGHT].best("debian"), "tutti-mapped"))

    def test_of_a_negative_time_are_missing_too(self):
        below = figures.Figure.of("openmpi4", {1: -0.1})
        self.assertIsNone(figures.Ratio.of(figures.Figure.of("tutti", {1: 0.1}), below))

    def test_of_samples_with_states_are_medians_of_pairs_of_one_state(self):
        fast, slow = [2.0, 2.1], [6.0, 6.1]
        rows = (probed("tutti", [[1.0, 1.0, 9.0, 1.0]], [[fast, fast, slow, fast]]) +
                probed("openmpi4", [[4.0, 2.0, 2.0, 3.0]], [[fast, fast, fast, fast]]) +
                probed("mpich4", [[1.0, 1.0, 1.0, 1.0]], [[slow, slow, fast, slow]]))
        cell = figures.cells_of(rows, GROUPS)[EIGHT]
        ratio = cell.ratio_to(cell.figures["openmpi4"])
        self.assertEqual(ratio.pairs, 3)
        self.assertAlmostEqual(ratio.value, 1 / 3)
        self.assertAlmostEqual(ratio.least, (1 / 4 + 1 / 3) / 2)
        self.assertAlmostEqual(ratio.most, (1 / 3 + 1 / 2) / 2)
        self.assertFalse(ratio.decides(1), "three pairs are too few")
        self.assertIsNone(cell.ratio_to(cell.figures["mpich4"]), "no two samples of one state")

    def test_decide_where_the_quartiles_are_on_one_side(self):
        self.assertTrue(figures.Ratio(0.8, 0.7, 0.9, 15).decides(1))
        self.assertFalse(figures.Ratio(0.9, 0.8, 1.01, 15).decides(1))
        self.assertFalse(figures.Ratio(0.8, 0.7, 0.9, 4).decides(1))
        self.assertTrue(figures.Ratio(0.9, 0.8, 1.01).decides(1), "kept without states")

    def test_name_the_peer_that_is_hardest_to_beat(self):
        around = [[2.0, 2.0]] * 5
        rows = (probed("tutti", [[2.0] * 5], [around]) + probed("openmpi4", [[4.0] * 5], [around]) +
                probed("gloo", [[1.9, 1.9, 1.9, 2.1, 2.1]], [around]))
        cell = figures.cells_of(rows, GROUPS)[EIGHT]
        ratio, name = cell.hardest("debian", "others")
        self.assertEqual((name, round(ratio.value, 3)), ("gloo", 1.053))
        self.assertEqual(figures.ahead(cell), "", "0.95 and 1.05 are the quartiles")
        self.assertIs(figures.ahead(figures.cells_of(rows[:2], GROUPS)[EIGHT]), True)
        self.assertIsNone(figures.ahead(figures.cells_of(rows[:1], GROUPS)[EIGHT]))

    def test_take_the_better_ceiling(self):
        cell = self.cells[MEGABYTE]
        self.assertEqual(cell.ceiling.us, 32.0)
        self.assertAlmostEqual(cell.ratio_to(cell.ceiling, "tutti-mapped").value, 1.25)


class Targets(unittest.TestCase):
    def test_of_two_ranks_stand_by_size_and_collective(self):
        self.assertEqual(targets.to_peers(2, "back", "all_reduce", 8), 0.42)
        self.assertEqual(targets.to_peers(2, "back", "broadcast", 256 << 20), 0.68)
        self.assertEqual(targets.to_peers(2, "back", "reduce_scatter", 64 << 20), 0.18)
        self.assertEqual([targets.to_peers(2, "used", c, 12345) for c in targets.FIVE], [0.7, 1.0, 0.7, 1.0, 1.0])
        self.assertIsNone(targets.to_peers(2, "back", "all_reduce", 12345))
        self.assertIsNone(targets.to_peers(2, "back", "gather", 8))
        self.assertIsNone(targets.to_peers(2, "apart", "broadcast", 8))

    def test_of_crowded_ranks_let_nothing_collapse(self):
        self.assertEqual(targets.to_peers(4, "back", "all_reduce", 16), 0.5)
        self.assertEqual(targets.to_peers(8, "back", "all_reduce", 16 << 20), 0.6)
        self.assertEqual(targets.to_peers(8, "back", "all_reduce", 64 << 10), 1.0)
        self.assertEqual(targets.to_peers(4, "back", "gather", 16), 0.8)
        self.assertIsNone(targets.to_peers(4, "back", "all_reduce", 16, cores=4))

    def test_are_met_or_missed(self):
        cells = figures.cells_of(ROWS, GROUPS)
        met, missed = figures.tally(cells, 2)
        self.assertEqual(([cell.size for cell in met], [cell.size for cell in missed]), ([8], [1 << 20]))
        met, missed = figures.mapped_tally(cells, 2)
        self.assertEqual(([name for _, name in met], [name for _, name in missed]),
                         (["tutti-mapped"], ["tutti-threads"]))


class Again(unittest.TestCase):
    """Cells that are measured again."""

    def setUp(self):
        path = str(SOURCE / "bench/vs_peers")
        spec = importlib.util.spec_from_loader("vs_peers", importlib.machinery.SourceFileLoader("vs_peers", path))
        self.program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.program)

    def test_are_named_as_in_the_results(self):
        self.assertEqual(self.program.cell("2/used/all_gather/4K"), (2, "used", "all_gather", 4096))
        self.assertEqual(self.program.cell("8/back/all_reduce/8"), (8, "back", "all_reduce", 32), "an element each")
        self.assertEqual(self.program.cell("2/back/barrier/0"), (2, "back", "barrier", 0))
        for wrong in "2/used/all_gather", "2/often/all_gather/8", "x/back/reduce/8", "0/back/reduce/8", "2/back/sum/8":
            with self.assertRaises(argparse.ArgumentTypeError, msg=wrong):
                self.program.cell(wrong)

    def test_are_those_in_which_a_peer_is_ahead_or_that_are_not_decided(self):
        self.assertEqual(self.program.open_cells(raw(ROWS)), [EIGHT])
        self.assertEqual(self.program.open_cells(raw([row for row in ROWS if row[5] != "gloo"])), [])

    def test_take_the_place_of_those_of_before(self):
        new = raw(rows_of("tutti", [[0.7]]) + rows_of("openmpi4", [[0.6]]))
        new["about"]["versions"] = {"Tutti": "that", "openmpi4": "4"}
        both = self.program.merged(raw(ROWS), new, {EIGHT})
        self.assertEqual([row for row in both["rows"] if tuple(row[1:5]) == EIGHT], new["rows"])
        self.assertEqual([row for row in both["rows"] if tuple(row[1:5]) == MEGABYTE],
                         [row for row in ROWS if tuple(row[1:5]) == MEGABYTE])
        self.assertEqual(both["about"]["versions"]["openmpi4"], "4")
        self.assertEqual([again["commit"] for again in both["about"]["again"]], ["that"])


class Hopeless(unittest.TestCase):
    def test_are_those_far_behind_the_best(self):
        self.assertEqual(figures.hopeless({"a": 1.0, "b": 3.0, "c": 3.1, "d": 50.0}), {"c", "d"})
        self.assertEqual(figures.hopeless({}), set())


class Page(unittest.TestCase):
    def test_shows_every_cell_with_its_verdict(self):
        page = report.Page(raw(ROWS)).text("shm.svg")
        self.assertIn("1 of 2 cells meet their target", page)
        self.assertIn("| 8 B | 0.2 (0.1–0.3) | 0.5 (0.4–0.5) openmpi4 | 0.40 (0.25–0.60) | 0.42 | met | 0.01 gloo | "
                      "20.00 | – | – |", page)
        self.assertIn("| 1 MiB | 45 | 50 mpich4 | 0.90 | 0.77 | **missed** | – | – | 32 | 1.41 |", page)
        self.assertIn("| back-to-back | 2 all_gather | 1 MiB | 32 | 40 | 1.25 | met | – | – |  | 41 | 1.28 | **missed** |", page)
        self.assertIn("- gloo: is told apart", page)

    def test_says_where_the_target_lies_below_the_ceiling(self):
        self.assertNotIn("missed too", report.Page(raw(ROWS)).text())  # 32 ÷ 50 is less than 0.77
        slow = [row for row in ROWS if not row[5].startswith("ceiling")] + rows_of("ceiling", [[39.0]], MEGABYTE)
        self.assertIn("Of those that miss, 1 have a target", report.Page(raw(slow)).text())

    def test_says_how_far_from_the_ceiling_here_and_where_targets_were_set(self):
        page = report.Page(raw(ROWS)).text()
        self.assertIn("| 1 MiB | – | **1.41 / 1.12** | – | – | – |", page)
        self.assertIn("or nearer: 0 of 1.", page)
        without = [row for row in ROWS if row[5] != "tutti"]
        self.assertNotIn("or nearer", report.Page(raw(without)).text())

    def test_names_the_peers_that_are_ahead(self):
        self.assertIn("| 2 | back-to-back | all_reduce | 8 B | gloo | 20.00 (10.00–30.00) | – | a peer is ahead |",
                      report.Page(raw(ROWS)).text())
        without = [row for row in ROWS if row[5] != "gloo"]
        self.assertIn("in all 2 cells no peer is faster", report.Page(raw(without)).text())

    def test_says_what_was_measured_again(self):
        one = raw(ROWS)
        one["about"]["again"] = [{"date": "later", "commit": "commit abc", "launches": 7, "command": "bench/vs_peers …"}]
        self.assertIn("- measured again: later, commit abc, 7 launches: `bench/vs_peers …`", report.Page(one).text())

    def test_says_when_it_was_quick_or_the_machine_busy(self):
        one = raw(ROWS)
        self.assertNotIn("**A quick run**", report.Page(one).text())
        one["about"].update(quick=True, load=3.0)
        self.assertIn("**A quick run**", report.Page(one).text())
        self.assertIn("**The machine was not idle**", report.Page(one).text())

    def test_has_a_picture(self):
        for rows in ROWS, []:
            picture = xml.etree.ElementTree.fromstring(plot.svg(raw(rows)))
            lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
            self.assertEqual(bool(lines), bool(rows))


class Speed(unittest.TestCase):
    """README's chart."""

    def test_says_how_many_times_as_fast(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            (results / "shm.json").write_text(json.dumps(raw(ROWS)))
            (results / "two_hosts.md").write_text("| 8 | 6.8 (6.7–6.9) | 6.9 (6.8–7.0) | 6.5 (6.2–7.3) | **1.25** (≤ 0.75) | 0.00 | 0.00 |\n"
                                                  "| 4096 | 8.1 (8.0–8.3) | 18.9 (18.9–18.9) | 18.0 (17.9–18.3) | 0.40 | 0.50 | 0.26 |\n")
            rows, machine = speed.one_host(results / "shm.json")
            self.assertEqual([(size, [round(value, 6) for value in values]) for size, values in rows],
                             [(8, [2.5]), (1 << 20, [round(50 / 45, 6)])])  # 0.2 beside 0.5, 45 beside 50
            self.assertEqual(machine, "a machine")
            self.assertEqual(speed.two_hosts(results / "two_hosts.md"), [(8, [0.8]), (4096, [2.5])])
            speed.write(results)
            for name in "speed.svg", "speed-dark.svg":
                picture = (results / name).read_text()
                xml.etree.ElementTree.fromstring(picture)
                for words in "2.5×", "1.1×", "0.8×", "2.5×", "4 KiB", "a machine":
                    self.assertIn(words, picture)

    def test_is_of_the_results_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "shm.json", "two_hosts.md":
                shutil.copy(SOURCE / "bench/results" / name, folder)
            speed.write(pathlib.Path(folder))
            for name in "speed.svg", "speed-dark.svg":
                self.assertEqual((pathlib.Path(folder) / name).read_text(), (SOURCE / "bench/results" / name).read_text())


if __name__ == "__main__":
    main()
