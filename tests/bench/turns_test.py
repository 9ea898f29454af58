"""Tutti's own programs take their turns: every collective right, every mode timed."""

import unittest

from support import BUILD, main

from vs_peers_lib import programs, protocol
from vs_peers_lib.rank_group import RankGroup


class Turns(unittest.TestCase):
    def play(self, program, ranks):
        group = RankGroup(program, ranks, 2, limit=20)
        try:
            for collective, size in protocol.cells_for(protocol.COLLECTIVES, [4, 4096, 96 << 10], ranks):
                where = f"{program.name}, {ranks} ranks: {collective} of {size} bytes"
                self.assertEqual(group.ask(f"open {collective} {size}"), [["wrong", "0"]] * ranks, where)
                for mode in protocol.MODES:
                    for took, whole, touching in group.ask(f"time {mode} 3"):
                        self.assertEqual(took, "took", where)
                        self.assertGreater(float(whole), 0, where)
                        self.assertEqual(float(touching) > 0, mode == "used", where)
                self.assertEqual(group.ask("close"), [["closed"]] * ranks, where)
            self.assertEqual(group.ask("dance"), [["cannot", "dance"]] * ranks)
        finally:
            group.stop()
        self.assertEqual(group.process.returncode, 0)

    def test_with_processes_threads_and_both_kinds_of_memory(self):
        for program in programs.tutti(BUILD):
            self.play(program, 2)

    def test_at_the_ceiling_for_any_number_of_ranks(self):
        for program in programs.ceiling(BUILD):
            for ranks in 2, 3:
                self.play(program, ranks)


if __name__ == "__main__":
    main()
