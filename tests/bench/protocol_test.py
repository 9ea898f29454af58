"""How cells, calls and modes are chosen; what becomes of a program that is wrong, ends or keeps silent."""

import types
import unittest

from support import main

from vs_peers_lib import programs, protocol
from vs_peers_lib.rank_group import RankGroup, Lost


def script(text):
    return programs.Program("script", programs.OTHERS, ("bash", "-c", text, "{folder}"))


# Answers "wrong 3" to everything, as one rank.
LIAR = 'exec 3<"$0/turn.0" 4>"$0/said"; echo 0 ready >&4; while read -r line <&3; do [ "$line" = end ] && exit; ' \
       'echo 0 wrong 3 >&4; done'


# The same with right results, in six microseconds.
TIMED = 'exec 3<"$0/turn.0" 4>"$0/said"; echo 0 ready >&4; while read -r what rest <&3; do case $what in end) exit;; ' \
        'open) echo 0 wrong 0 >&4;; time) echo 0 took 6.0 0.0 >&4;; *) echo 0 closed >&4;; esac; done'


class Choices(unittest.TestCase):
    def test_cells_hold_an_element_for_each_block(self):
        self.assertEqual(protocol.cells_for(["all_reduce", "barrier"], [8, 256, 16], 8),
                         [("all_reduce", 32), ("all_reduce", 256), ("barrier", 0)])
        self.assertEqual(protocol.cells_for(["gather"], [1 << 20], 3), [("gather", 1048572)])

    def test_calls_follow_from_the_size_unless_they_are_slow(self):
        self.assertEqual(protocol.calls_for(8, 2, 2, 1e-7), 20000)
        self.assertEqual(protocol.calls_for(1 << 20, 2, 2, 1e-4), 160)
        self.assertEqual(protocol.calls_for(1 << 20, 8, 2, 1e-4), 40)
        self.assertEqual(protocol.calls_for(8, 8, 2, 6e-3), 10)
        self.assertEqual(protocol.calls_for(8, 8, 2, 60.0), protocol.LEAST_CALLS)
        self.assertEqual(protocol.calls_for(256 << 20, 2, 2, 0.1), 2)

    def test_modes_are_those_that_mean_something(self):
        self.assertEqual(protocol.modes_for("all_reduce", protocol.MODES, 2, 2), ["back", "used"])
        self.assertEqual(protocol.modes_for("broadcast", protocol.MODES, 2, 2), ["back", "used", "apart"])
        self.assertEqual(protocol.modes_for("broadcast", protocol.MODES, 4, 2), ["back"])
        self.assertEqual(protocol.modes_for("barrier", protocol.MODES, 2, 2), ["back"])


class Samples(unittest.TestCase):
    """Of a program that answers anything with 6 us, between probes that are made up."""

    def run_with(self, probes, **options):
        program = script(TIMED)
        run = protocol.Run([program], types.SimpleNamespace(**{"ranks": [1], "collectives": ["all_reduce"], "sizes": [8],
                           "launches": 1, "modes": ["back"], "quick": True, "cells": None, **options}),
                           lambda text: None, lambda text: None)
        probes = iter(probes)
        run.probe = lambda: next(probes)
        run._start_probe = lambda: None
        run._launch(1, 1)
        return run

    def test_stand_with_the_state_of_the_machine_before_and_after(self):
        run = self.run_with([2.0, 2.1] * 3)
        self.assertEqual(run.rows, [[1, 1, "back", "all_reduce", 8, "script", 10000, [6.0] * 3, [[2.0, 2.1]] * 3]])
        self.assertEqual(run.retaken, 0)

    def test_during_which_it_changed_are_taken_again_but_not_for_ever(self):
        run = self.run_with([2.0, 6.0, 6.0, 6.1] + [2.0, 6.0] * 3 + [2.0, 2.0])
        self.assertEqual(run.rows[0][8], [[6.0, 6.1], [2.0, 6.0], [2.0, 2.0]])
        self.assertEqual(run.retaken, 3)

    def test_are_of_the_cells_that_were_named(self):
        run = self.run_with([2.0] * 6, sizes=[8, 16], modes=["back", "used"], collectives=["all_reduce", "reduce"],
                            cells=[(1, "back", "reduce", 16)])
        self.assertEqual([row[1:5] for row in run.rows], [[1, "back", "reduce", 16]])


class Failures(unittest.TestCase):
    def run_of(self, program):
        options = types.SimpleNamespace(ranks=[1], collectives=["all_reduce"], sizes=[8], launches=1, modes=["back"],
                                        quick=True, cells=None)
        return protocol.Run([program], options, lambda text: None, lambda text: None)

    def test_a_program_with_wrong_results_is_not_timed(self):
        group = RankGroup(script(LIAR), 1, 2)
        self.addCleanup(group.stop)
        with self.assertRaisesRegex(Lost, "all_reduce of 8 bytes: 3 elements are wrong"):
            protocol.Run._open(group, "all_reduce", 8)

    def test_a_program_that_ends_says_why(self):
        with self.assertRaisesRegex(Lost, "script, 2 ranks: ended with status 3: no network"):
            RankGroup(script("echo no network; exit 3"), 2, 2)

    def test_a_program_that_keeps_silent_is_given_up(self):
        with self.assertRaisesRegex(Lost, "no answer within 0.2 s: it printed nothing"):
            RankGroup(script("sleep 100"), 1, 2, limit=0.2)

    def test_cost_only_their_own_figures(self):
        run = self.run_of(script("exit 1"))
        run._launch(1, 1)
        self.assertEqual(run.rows, [])
        self.assertIn("script, 1 ranks: ended with status 1", run.notes[-1])


if __name__ == "__main__":
    main()
