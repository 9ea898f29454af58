"""Hosts with a cable between any two, of which some are slow: plans made for them are chosen, and are faster.

    mesh_test.py BUILD [unittest's arguments]

`tutti tune --links --synth` measures the cables and keeps plans; jobs choose them by themselves. network.py has the hosts;
bench/synthesis_links compares all algorithms.
"""

import json
import pathlib
import re
import statistics
import sys
import unittest

from network import CABLE, MESHES, NAMES, SLOW_CABLE, Network, Unavailable

BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
SIZE = 16 << 20
BLOCK = SIZE / len(NAMES)
NEAR = 0.2  # a measured rate beside that of the cable


class TwoSlowCables(unittest.TestCase):
    """Blocks for host3, whose cables to host0 and host1 are slow, go by way of host2."""

    slow = MESHES["two slow cables of a host"]

    @classmethod
    def setUpClass(cls):
        try:
            cls.network = Network(cables=cls.slow)
        except Unavailable as error:
            raise unittest.SkipTest(f"no hosts with cables here: {error}") from None
        cls.addClassCleanup(cls.network.remove)
        cls.said = cls.network.tune(BUILD, "--links", "--synth")
        found = next((cls.network.folder / NAMES[0] / "tutti").glob("?" * 16 + ".json"))
        cls.hosts = json.loads(found.read_text())["hosts"]

    def test_each_cable_is_measured(self):
        self.assertEqual(self.hosts["islands"], [])
        for pair in self.hosts["pairs"]:
            rate = self.slow.get((pair["a"], pair["b"]), CABLE)
            self.assertAlmostEqual(1e-6 / pair["beta"] / rate, 1, delta=NEAR, msg=str(pair))

    def test_a_host_reaches_more_by_all_cables_than_by_one(self):
        """As much as they have together where processors are idle; beside other work less."""
        links = {link["host"]: 1e-6 / link["beta"] for link in self.hosts["links"]}
        for host, rate in ("host2", 3 * CABLE), ("host3", CABLE + 2 * SLOW_CABLE):
            self.assertGreater(links[host], 1.25 * CABLE, host)
            self.assertLess(links[host], (1 + NEAR) * rate, host)

    def test_the_bound_is_that_of_the_slow_hosts_cables(self):
        bound = re.search(r"all_gather, bound: \{ranks 0-2 \| rank 3\}: ([\d.]+) GB/s cross, 3 blocks must", self.said)
        self.assertTrue(bound, self.said)
        self.assertAlmostEqual(float(bound[1]) * 1e3 / (CABLE + 2 * SLOW_CABLE), 1, delta=NEAR)

    def test_the_plan_is_chosen_and_beats_the_direct_way(self):
        self.assertRegex(self.network.why(BUILD, "all_gather", SIZE), r"(?m)^\* synth@")
        # Of the catalogue, this is the best one here: no order of the ranks saves a ring from the slow cables.
        times = {None: [], "one_shot": []}
        for _ in range(3):
            for algorithm, list_ in times.items():
                forced = {"TUTTI_ALGO": f"all_gather:{algorithm}"} if algorithm else None
                list_.append(self.network.milliseconds(BUILD, "all_gather", SIZE, forced))
        ours, best = (statistics.median(list_) for list_ in times.values())
        self.assertLessEqual(ours, 0.8 * best, times)
        self.assertGreaterEqual(ours, 0.95e-3 * 3 * BLOCK / (CABLE + 2 * SLOW_CABLE), "no schedule is as fast")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
