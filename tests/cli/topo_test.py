"""tutti topo: tree, matrix, drawing, import."""

import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

from support import TUTTI, main, tutti

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies")
TWO_SOCKETS = "package:2 [numa(memory=68719476736)] l3:8(size=33554432) l2:8(size=1048576) l1d:1(size=32768) core:1 pu:2"


def sample(name):
    return os.path.join(SAMPLES, name)


def imported(name, *arguments):
    return tutti("topo", "--import", sample(name), *arguments)


class Topo(unittest.TestCase):
    def test_a_job_runs_where_its_topology_cannot_be_written(self):
        done = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "1", env={"TUTTI_TOPO_DUMP_FILE": "/proc/nope/y"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("TUTTI_TOPO_DUMP_FILE: the topology is not written: "), 1, done.stderr)

    def test_tables_that_are_text_alone_write_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for table in ("--weakest",), ("--figures",):
                for file in ("-o", "t.svg"), ("--svg", "t.svg"), ("--json", "t.json"), ("--json", "-"):
                    done = imported("nccl-8-gpus-8-nics.xml", *table, file[0], os.path.join(folder, file[1]) if file[1] != "-" else "-")
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(f"{table[0]} prints a table and writes no file: leave out -o, --svg and --json", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_shows_this_machine(self):
        done = tutti("topo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(os.uname().nodename))
        self.assertRegex(done.stdout, r"(?m)^ +(core|cores) \d")

    def test_shows_a_tree_and_paths(self):
        done = imported("nccl-pcie-2-sockets.xml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^    PCIe switch 0000:10:00.0 +PCIe 24 GB/s$")
        self.assertRegex(done.stdout, r"(?m)^      GPU 1  0000:12:00.0 +PCIe 12 GB/s$")
        self.assertRegex(done.stdout, r"(?m)^    NIC eth0 +PCIe 12 GB/s\?, port 1.25 GB/s\?$")
        self.assertRegex(done.stdout, r"(?m)^GPU 0 - +PIX 12 1 +PHB 24 1.1 +SYS 10 1.19$")
        self.assertRegex(done.stdout, r"(?m)^PHB +PCIe host bridge +24 +1.1 +2  0-2 by PCIe switch 0000:10:00.0, NUMA node 0$")

    def test_multiplies_a_host(self):
        done = imported("nccl-hidden-nvswitch.xml", "--hosts", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("host 0 and 3 hosts alike", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^rank 0 - a b b b b b b$")
        self.assertRegex(done.stdout, r"(?m)^a +NVSwitch +371 +0.6 +8  0-1 by NVSwitch$")
        self.assertRegex(done.stdout, r"(?m)^b +network +12 +2.7 +48  0-2 by NUMA node of unknown number, NIC mlx5_")

    def test_keeps_to_a_hundred_columns(self):
        for arguments in (("nccl-pcie-2-sockets.xml",), ("nccl-pcie-2-sockets.xml", "--hosts", "3"), ("hwloc-2-sockets.xml",),
                          ("nccl-hidden-nvswitch.xml", "--hosts", "64")):
            for line in imported(*arguments).stdout.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_places_ranks(self):
        done = tutti("topo", "-n", "4", env={"HWLOC_SYNTHETIC": TWO_SOCKETS})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^rank 0 - +PKG .*SYS")
        done = imported("hwloc-2-sockets.xml", "-n", "8")
        self.assertRegex(done.stdout, r"(?m)^rank 0 - a b b c c c c$")
        self.assertRegex(done.stdout, r"(?m)^b +same package +25 +0.107 +16 ")
        done = imported("hwloc-2-sockets.xml", "-n", "1", "--hosts", "2")
        self.assertRegex(done.stdout, r"(?m)^rank 0 - +NET ")

    def test_writes_json_that_it_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/topology.json"
            done = imported("hwloc-2-sockets.xml", "--hosts", "2", "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                page = json.load(file)
            self.assertEqual(page["format"], "tutti-topology")
            self.assertEqual(page["paths"]["kind"][0][2], "network")
            self.assertEqual(tutti("topo", "--import", path).stdout, done.stdout)
            alone = imported("hwloc-2-sockets.xml", "--json", "-")
            self.assertEqual(json.loads(alone.stdout)["nodes"][0]["name"], "two-sockets")

    def test_draws(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments in (("hwloc-2-sockets.xml",), ("nccl-nvlink-pairs.xml",), ("nccl-hidden-nvswitch.xml", "--hosts", "4")):
                path = folder + "/topology.svg"
                done = imported(*arguments, "--svg", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                root = xml.etree.ElementTree.parse(path).getroot()
                width, height = float(root.get("width")), float(root.get("height"))
                words = "".join(root.itertext())
                self.assertIn("GPU 0", words)
                for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
                    if shape.get("x"):
                        self.assertGreaterEqual(float(shape.get("x")), 0)
                        self.assertLessEqual(float(shape.get("x")) + float(shape.get("width")), width)
                        self.assertLessEqual(float(shape.get("y")) + float(shape.get("height")), height)
            self.assertIn("network", words)
            self.assertIn("NVSwitch", words)

    def test_lists_the_published_figures_with_their_sources(self):
        done = tutti("topo", "--figures")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()[1:]
        self.assertEqual(len(lines) % 3, 0)
        for source in lines[2::3]:
            self.assertRegex(source, r"^    source: \S")
        self.assertRegex(done.stdout, r"(?m)^nvlink_sm90 +20.6 +0.6  NVLink$")

    def test_names_a_broken_file_and_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/broken.xml"
            with open(path, "w") as file:
                file.write("<system version='1'>\n<cpu numaid='zero'/></system>")
            done = tutti("topo", "--import", path)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stdout, "")
            self.assertIn(f"{path}:2: numaid=\"zero\" is not a whole number", done.stderr)
        done = tutti("topo", "--import", "/no/such/file.xml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/file.xml: No such file", done.stderr)
        self.assertEqual(imported("nccl-nvlink-pairs.xml", "--hosts", "0").returncode, 2)
        self.assertEqual(imported("nccl-nvlink-pairs.xml", "--svg", "/no/such/folder/x.svg").returncode, 1)

    def test_reads_the_samples_beside_the_repository_if_they_are_there(self):
        shared = os.path.join(SAMPLES, "..", "..", "..", "shared", "topologies")
        if not os.path.isdir(shared):
            shared = os.path.join(SAMPLES, "..", "..", "shared", "topologies")
        paths = {"hgx-8xH200.xml": r"NVSwitch +371", "aws-p4d-8xA100.xml": r"PCIe switch +12",
                 "azure-ndv4-8xA100.xml": r"PCIe switch +24", "azure-ncv4-4xA100.xml": r"across sockets +12"}
        for name, words in paths.items():
            path = os.path.join(shared, name)
            if not os.path.exists(path):
                continue
            done = tutti("topo", "--import", path, "--hosts", "2")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, words)
            self.assertRegex(done.stdout, r"(?m)^\S+ +network +\d+")

    def test_of_a_job_shows_the_paths_between_its_ranks(self):
        done = tutti("run", "-n", "3", "--", TUTTI, "topo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("path, GB/s, us"), 1, "one rank prints")
        for rank in range(3):
            self.assertRegex(done.stdout, rf"(?m)^\[0\] rank {rank} ")


if __name__ == "__main__":
    main()
