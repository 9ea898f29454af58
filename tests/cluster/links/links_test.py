"""tutti tune --hosts finds the slow links of a network, and the jobs on it choose by them.

    links_test.py BUILD [unittest's arguments]

Four hosts with a rank each; their even links, one slow host, and two islands are three networks (network.py).
"""

import json
import pathlib
import re
import sys
import unittest

from network import CASES, FAST, NAMES, SLOW, Network, Unavailable

BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
COUNTS = {"all_reduce": 4 << 20, "all_gather": 1 << 20, "broadcast": 4 << 20}  # elements of 16 MiB
NEAR = 0.15  # a measured rate beside that of the link


class Case:
    """One network, measured once. What a job says of its choices is `why`, by collective."""

    case = None

    @classmethod
    def setUpClass(cls):
        try:
            cls.network = Network(**CASES[cls.case])
        except Unavailable as error:
            raise unittest.SkipTest(f"no hosts with rates here: {error}") from None
        cls.addClassCleanup(cls.network.remove)
        cls.said = cls.network.tune(BUILD, "--links")
        profiles = [list((cls.network.folder / name / "tutti").glob("?" * 16 + ".json")) for name in NAMES]
        cls.profiles = [json.loads(found[0].read_text()) for found in profiles]
        cls.why = {collective: cls.explained(collective) for collective in COUNTS}

    @classmethod
    def explained(cls, collective, **env):
        done = cls.network.tutti(BUILD, "perf", collective, "-b", "16M", "-e", "16M", "-n", "1", "-w", "0",
                                 env={"TUTTI_EXPLAIN": "1", "TUTTI_TOPO_DUMP_FILE": cls.dump(collective), **env})
        lines = re.search(rf"why {collective}\(count={COUNTS[collective]},[^\n]*\n((?:\[0\] [ *] [^\n]*\n)+)", done.stderr)
        assert lines, done.stderr
        return lines[1].replace("[0] ", "")

    @classmethod
    def dump(cls, collective):
        return str(cls.network.folder / f"{collective}.json")

    def links(self):
        return {link["host"]: 1e-6 / link["beta"] for link in self.profiles[0]["hosts"]["links"]}

    def test_each_host_has_the_profile_with_each_pair(self):
        self.assertEqual(self.profiles, self.profiles[:1] * len(NAMES))
        pairs = {(pair["a"], pair["b"]) for pair in self.profiles[0]["hosts"]["pairs"]}
        self.assertEqual(pairs, {(a, b) for i, a in enumerate(NAMES) for b in NAMES[i + 1:]})

    def test_explain_makes_the_same_choices_from_the_jobs_topology(self):
        for collective, why in self.why.items():
            done = self.network.tutti(BUILD, "explain", collective, "--bytes", "16M", "--topo", self.dump(collective),
                                      hosts=NAMES[:1], env={"TUTTI_PROFILE": "off"})
            for line in why.splitlines():
                self.assertIn(line, done.stdout)
            self.assertIn("\n  bound: {", why)

    def test_the_simulator_runs_on_the_jobs_topology(self):
        done = self.network.tutti(BUILD, "sim", "all_gather", "--bytes", "16M", "--topo", self.dump("all_gather"),
                                  hosts=NAMES[:1], env={"TUTTI_PROFILE": "off"}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def chosen(self, collective):
        order = re.search(r"order of ranks: (.*)", self.why[collective])
        return re.search(r"(?m)^\* (\w+)", self.why[collective])[1], order[1] if order else "natural"


class Even(Case, unittest.TestCase):
    case = "even"

    def test_no_link_is_slow(self):
        self.assertNotRegex(self.said, r"(?m)^  link ")
        for collective in COUNTS:
            self.assertNotRegex(self.why[collective], r"(?m)^  link ")
            self.assertEqual(self.chosen(collective)[1], "natural")

    def test_rates_are_those_of_the_links(self):
        for rate in self.links().values():
            self.assertAlmostEqual(rate / FAST, 1, delta=NEAR)


class SlowHost(Case, unittest.TestCase):
    case = "slow host"

    def test_it_is_named_with_its_rate(self):
        self.assertAlmostEqual(self.links()["host2"] / SLOW, 1, delta=NEAR)
        self.assertRegex(self.said, r"(?m)^  link host2: 2[1-9](\.\d)? MB/s$")
        for why in self.why.values():
            self.assertRegex(why, r"(?m)^  link host2: 2[1-9](\.\d)? MB/s, measured by `tutti tune`$")
            self.assertEqual(why.count("\n  link "), 1, why)

    def test_it_stands_at_the_end_of_chains(self):
        for collective in COUNTS:
            self.assertRegex(self.chosen(collective)[1], r"^0, [13], [13], 2$")

    def test_the_sum_goes_through_it_once(self):
        self.assertIn(self.chosen("all_reduce")[0], ("chain", "double_tree", "binomial"))


class SlowWhileItRuns(unittest.TestCase):
    """Nothing was measured before: a running job finds its slow links itself."""

    def run_on(self, rates, calls):
        try:
            network = Network(rates=rates)
        except Unavailable as error:
            raise unittest.SkipTest(f"no hosts with rates here: {error}") from None
        with network:
            return network.tutti(BUILD, "perf", "all_reduce", "-b", "16M", "-e", "16M", "-n", str(calls), "-w", "0", "-c", "0",
                                 env={"TUTTI_ALGO": "all_reduce:ring"})

    def test_even_links_are_not(self):
        self.assertNotIn(" is slow: ", self.run_on({}, 100).stderr)

    def test_a_host_at_half_the_rate_is_named_by_its_links(self):
        done = self.run_on({"host2": FAST / 2}, 80)
        slow = re.findall(r"the tcp link from rank (\d) on host\d to rank (\d) on host\d is slow: in the last \d+ s it carried ([\d.]+) MB/s",
                          done.stderr)
        self.assertTrue(slow, done.stderr)
        for sender, receiver, rate in slow:
            self.assertIn("2", (sender, receiver), done.stderr)
            self.assertAlmostEqual(float(rate) / (FAST / 2), 1, delta=0.3)
        self.assertNotRegex(done.stderr, r"rank \d \(process .* is slow")


class Islands(Case, unittest.TestCase):
    case = "islands"

    def test_their_link_is_named_with_its_rate(self):
        islands = self.profiles[0]["hosts"]["islands"]
        self.assertEqual([island["hosts"] for island in islands], [["host0", "host2"], ["host1", "host3"]])
        for why in self.why.values():
            self.assertRegex(why, r"(?m)^  link host0, host2 – host1, host3: \d+(\.\d)? MB/s, measured by `tutti tune`$")
        for island in islands:
            self.assertAlmostEqual(1e-6 / island["beta"] / SLOW, 1, delta=0.3)

    def test_ranks_of_an_island_follow_each_other(self):
        for collective in COUNTS:
            self.assertIn(self.chosen(collective)[1], ("0, 2, 1, 3", "0, 2, 3, 1"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
