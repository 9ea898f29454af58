"""tutti sim: times of a model, on this machine and on imported ones."""

import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

from support import main, tutti

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies")
GPUS = os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml")
HERE = {"TUTTI_PROFILE": "off", "TUTTI_CALIBRATION": "0"}


def simulated(*arguments, env=None):
    done = tutti("sim", *arguments, "--json", env={**HERE, **(env or {})})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Sim(unittest.TestCase):
    def test_prints_time_busiest_link_and_that_it_is_a_model(self):
        done = tutti("sim", "all_reduce", "--bytes", "256M", "--topo", GPUS, "--hosts", "2", env=HERE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^all_reduce of 256M on 16 ranks of 2 hosts, on the GPUs of ")
        self.assertRegex(done.stdout, r"(?m)^\w+: [\d.]+ us, [\d.]+ GB/s busbw$")
        self.assertRegex(done.stdout, r"(?m)^  busiest: .+, \d+ % of its rate")
        self.assertTrue(done.stdout.endswith("\nTimes are a model's, not measured ones.\n"))

    def test_a_machine_without_a_part_is_slower(self):
        sim = ("all_gather", "--bytes", "256M", "--topo", GPUS)
        best = lambda page: min(row["seconds"] for row in page["algorithms"])
        whole, left = simulated(*sim, "--compare"), simulated(*sim, "--compare", "--without", "link:0-4 NVSwitches")
        self.assertGreater(best(left), 2 * best(whole), "GPU 0 is reached by PCIe alone")
        self.assertEqual(len(left["algorithms"]), len(whole["algorithms"]))
        done = tutti("sim", *sim, "--without", "gpu:0", "--without", "nic:mlx5_0", env=HERE)
        self.assertRegex(done.stdout, r"(?m)^all_gather of 256M on 7 ranks, on the GPUs of .* without gpu:0, nic:mlx5_0")
        done = tutti("sim", *sim, "--without", "gpu:9", env=HERE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there are GPU 0", done.stderr)

    def test_a_demand_that_is_not_used_is_said(self):
        done = tutti("sim", "all_gather", "--bytes", "1M", "--topo", GPUS, env={**HERE, "TUTTI_ALGO": "all_gather:synth,broadcast:synth"})
        self.assertEqual(done.returncode, 0, done.stderr)
        words = " ".join(done.stdout.split())
        self.assertIn("TUTTI_ALGO=all_gather:synth is not used by calls on memory of GPUs: no plan is kept for these 8 ranks", words)
        self.assertNotIn("broadcast:synth", words)

    def test_compares_all_algorithms(self):
        page = simulated("all_reduce", "--bytes", "1G", "--topo", GPUS, "--compare")
        rows = page["algorithms"]
        self.assertGreater(len(rows), 8)
        times = [row["seconds"] for row in rows]
        self.assertEqual(times, sorted(times))
        ring = next(row for row in rows if row["algorithm"] == "ring")
        self.assertGreater(ring["busbw"], 340)
        self.assertLess(ring["busbw"], 375)
        for row in rows:
            self.assertAlmostEqual(row["of_bound"], page["bound"]["seconds"] / row["seconds"])
        self.assertIn("GB/s cross", page["bound"]["certificate"])
        self.assertIn("not measured", page["model"])

    def test_calls_have_a_root(self):
        sockets = ("--topo", os.path.join(SAMPLES, "nccl-pcie-2-sockets.xml"))
        times = [simulated("broadcast", "--bytes", "8", *sockets, "--root", root)["algorithms"][0]["seconds"] for root in "03"]
        self.assertNotEqual(*times)
        for words, why in ((("all_reduce", "--root", "1"), "all_reduce has no root"),
                           (("broadcast", *sockets, "--root", "4"), "--root 4: ranks are 0 to 3")):
            done = tutti("sim", *words, env=HERE)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(why, done.stderr)

    def test_all_eight_nics_make_the_bandwidth_between_hosts(self):
        page = simulated("all_reduce", "--bytes", "1G", "--topo", GPUS, "--hosts", "4", "--compare")
        best = page["algorithms"][0]
        self.assertGreater(best["busbw"], 150, best)
        self.assertGreater(next(row for row in page["algorithms"] if row["algorithm"] == "ring")["seconds"], best["seconds"])

    def test_a_few_bytes_go_in_few_messages(self):
        page = simulated("all_reduce", "--bytes", "8", "--topo", GPUS, "--hosts", "4", "--compare")
        times = {row["algorithm"]: row["seconds"] for row in page["algorithms"]}
        self.assertLess(times["recursive_doubling"], times["one_shot"])
        self.assertLess(times["recursive_doubling"], times["ring"])

    def test_simulates_this_machine_by_its_own_figures(self):
        page = simulated("all_gather", "--bytes", "1M", "-n", "2")
        self.assertEqual((page["ranks"], page["hosts"]), (2, 1))
        self.assertGreater(page["algorithms"][0]["seconds"], 10e-6)
        self.assertLess(page["algorithms"][0]["seconds"], 10e-3)

    def test_writes_a_trace_and_a_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, svg = os.path.join(folder, "trace.json"), os.path.join(folder, "timeline.svg")
            simulated("all_reduce", "--bytes", "1M", "--topo", GPUS, "--trace", trace, "--svg", svg)
            with open(trace) as file:
                page = json.load(file)
            self.assertGreater(sum(event["ph"] == "X" for event in page["traceEvents"]), 100)
            self.assertIn("not measured", page["otherData"]["note"])
            picture = xml.etree.ElementTree.parse(svg).getroot()
            words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
            self.assertEqual(sum(word in ("sends", "receives") for word in words), 2 * 8)  # a row a rank and direction
            self.assertLessEqual({"send", "receive", "receive and fold"}, set(words))  # the legend
            self.assertTrue(any("not measured" in word for word in words))

    def test_says_how_many_of_the_windows_asked_for_there_are(self):
        for width, words in (("16", "8 of the 16 windows asked for at a time"), ("4", ", 4 windows at a time")):
            done = tutti("sim", "all_reduce", "--bytes", "1M", "--topo", GPUS, "--width", width, env=HERE)
            self.assertIn(words, done.stdout)

    def test_a_file_on_the_standard_output_is_alone_there(self):
        done = tutti("sim", "all_reduce", "--topo", GPUS, "--svg", "-", env=HERE)
        self.assertTrue(done.stdout.startswith("<svg") and done.stdout.endswith("</svg>\n"), done.stdout[-200:])

    def test_takes_the_algorithm_that_is_named(self):
        page = simulated("all_reduce", "--topo", GPUS, "--algo", "swing")
        self.assertEqual([row["algorithm"] for row in page["algorithms"]], ["swing"])
        page = simulated("all_reduce", "--topo", GPUS, env={"TUTTI_ALGO": "all_reduce:chain"})
        self.assertEqual([row["algorithm"] for row in page["algorithms"]], ["chain"])

    def test_says_what_is_wrong(self):
        for arguments, words in ((("all_reduce", "--algo", "rign"), "did you mean ring?"),
                                 (("all_reduce", "--algo", "hierarchical"), "all ranks are in one group"),
                                 (("all_reduce", "--bytes", "x"), "--bytes x"),
                                 (("all_reduce", "--hosts", "4"), "--topo"),
                                 (("all_reduce", "--nvlink", "300"), "--nvlink: give the topology too, by --topo"),
                                 (("all_reduce", "--width", "3"), "--width 3: it is of programs of GPUs"),
                                 (("all_reduce", "-o", "-"), "an ending says what is written, and - has none"),
                                 (("all_reduce", "--engine", "ns3"), "ns3")):
            done = tutti("sim", *arguments, env=HERE)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)

    def test_simgrid_agrees_or_is_said_to_be_absent(self):
        done = tutti("sim", "all_reduce", "--bytes", "16M", "--topo", GPUS, "--algo", "ring", "--engine", "simgrid", "--json", env=HERE)
        if done.returncode != 0:
            self.assertIn("SimGrid cannot be used", done.stderr)
            return
        fast = simulated("all_reduce", "--bytes", "16M", "--topo", GPUS, "--algo", "ring")
        ratio = json.loads(done.stdout)["algorithms"][0]["seconds"] / fast["algorithms"][0]["seconds"]
        self.assertAlmostEqual(ratio, 1, delta=0.1)


if __name__ == "__main__":
    main()
