"""tutti info, tutti env, and features common to all commands."""

import json
import os
import re
import tempfile
import unittest

from support import main, tutti


class Info(unittest.TestCase):
    def test_describes_build_machine_and_transports(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("info", "-o", folder + "/info.json")
            with open(folder + "/info.json") as file:
                page = json.load(file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(page["tutti"], tutti("--version").stdout.split()[1])
        self.assertEqual(page["machine"]["host"], os.uname().nodename)
        self.assertEqual(page["this process"]["usable_processors"], len(os.sched_getaffinity(0)))
        for name in "local", "shm", "tcp":
            self.assertRegex(page["transports"][name], "^(usable|not usable): .")
        self.assertIn("usable", page["transports"]["local"])
        for name in "verbs", "ucx", "cuda", "simgrid", "train":
            self.assertRegex(page["build"][name], "^(built with|not in this build:) .")
        words = " ".join(done.stdout.split())
        for section, content in page.items():
            self.assertIn(section, words)
            if section != "constants" and isinstance(content, dict):
                for name, value in content.items():
                    self.assertIn(name, words)
                    self.assertIn(" ".join(str(value).split()), words)

    def test_fits_a_terminal_of_100_columns(self):
        for words in ["info"], ["info", "-v"]:
            for line in tutti(*words).stdout.splitlines():
                # A path longer than that stays whole.
                self.assertTrue(len(line) <= 100 or len(line.split()) == 1, line)

    def test_of_the_machines_memory_is_the_kernels(self):
        kernels = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        memory = re.search(r"(?m)^  memory +([\d.]+)([KMGT])", tutti("info").stdout)
        self.assertAlmostEqual(float(memory[1]) * 1024 ** ("KMGT".index(memory[2]) + 1) / kernels, 1, places=2)

    def test_tells_how_tcp_will_be_used(self):
        def tcp(**variables):
            entries = re.split(r"\n  (?=\S)", tutti("info", env=variables).stdout)
            return next(" ".join(entry.split()) for entry in entries if entry.split()[:1] == ["tcp"])
        usual = tcp()
        if "on this host only" in usual:
            self.skipTest("no interface but loopback has an address")
        self.assertRegex(usual, r"usable: over \S+ \([0-9a-f.:]+, (unknown speed|[0-9.e+]+ Gb/s), [124] streams? for each link")
        self.assertIn("congestion control", usual)
        self.assertIn("3 streams for each link", tcp(TUTTI_TCP_STREAMS="3"))
        self.assertIn("congestion control reno", tcp(TUTTI_TCP_CONGESTION="reno"))
        self.assertIn("listening at ports 23000-23007", tcp(TUTTI_PORTS="23000-23007"))
        self.assertIn("not usable: TUTTI_PORTS=\"23000\" is not a range", tcp(TUTTI_PORTS="23000"))
        self.assertIn("not usable: TUTTI_INTERFACE='=none' matches no network interface", tcp(TUTTI_INTERFACE="=none"))

    def test_lists_the_measured_constants(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("info", "-v", "--json", folder + "/info.json", env={"TUTTI_CALIBRATION": "0"})
            short = tutti("info", env={"TUTTI_CALIBRATION": "0"}).stdout
            with open(folder + "/info.json") as file:
                constants = json.load(file)["constants"]
        self.assertEqual(constants["zcopy_from"]["value"], 8192)
        self.assertEqual(constants["zcopy_from"]["unit"], "B")
        self.assertEqual(constants["zcopy_from"]["scope"], "equal on all ranks")
        self.assertRegex(done.stdout, r"(?m)^  zcopy_from +8K +shorter messages are staged,")
        self.assertRegex(done.stdout, r"(?m)^  shm_alpha +0.25 us +an empty message between processes")
        self.assertNotIn("zcopy_from", short)
        self.assertIn(f"{len(constants)} constants, used where nothing was measured here: tutti info -v", short)
        entries = re.split(r"\n  (?=\S)", done.stdout.partition("\nconstants\n")[2])
        texts = {entry.split()[0]: " ".join(entry.split()) for entry in entries}
        for name, row in constants.items():
            for word in row["scope"], row["meaning"], row["measured"]:
                self.assertTrue(word, name)
                self.assertIn(" ".join(word.split()), texts[name])
            self.assertNotIn("measured on chosen", texts[name])

    def test_describes_the_machine_that_hwloc_is_given(self):
        sockets = "package:2 [numa(memory=1073741824)] l3:1(size=33554432) l2:2(size=1048576) l1d:2(size=32768) core:1 pu:2"
        done = tutti("info", env={"HWLOC_SYNTHETIC": sockets})
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, text in (
            ("described_by", "HWLOC_XMLFILE or HWLOC_SYNTHETIC: perhaps another machine"),
            ("cores", "8, of 2 hardware threads each"),
            ("l1d", "8 of 32K, one for each core"),
            ("l2", "4 of 1M, each shared by 2 cores"),
            ("l3", "2 of 32M, each shared by 4 cores"),
            ("numa_nodes", "1G (processors 0-7), 1G (processors 8-15)"),
            ("usable_cores", "not known: hwloc describes another machine"),
        ):
            self.assertRegex(done.stdout, rf"(?m)^  {name} +{re.escape(text)}$")

    def test_says_what_it_cannot_know(self):
        done = tutti("info", env={"HWLOC_SYNTHETIC": "core:3 pu:1"})
        self.assertRegex(done.stdout, r"(?m)^  l2 +not reported by this machine$")
        done = tutti("info", env={"HWLOC_XMLFILE": "/no/such/file.xml"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("hwloc cannot read HWLOC_XMLFILE=/no/such/file.xml", done.stderr)

    def test_fails_if_it_cannot_write(self):
        done = tutti("info", "--json", "/no/such/folder/x.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file or directory", done.stderr)


class Env(unittest.TestCase):
    def test_shows_values_and_their_origin(self):
        done = tutti("env", env={"TUTTI_LOG": "error"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("TUTTI_LOG = error  (set)", done.stdout)

    def test_refuses_invalid_values_and_warns_of_unknown_variables(self):
        done = tutti("env", env={"TUTTI_LOG": "loud"})
        self.assertEqual(done.returncode, 2)
        self.assertIn('TUTTI_LOG="loud" cannot be used; it accepts: off,', done.stderr)
        done = tutti("env", env={"TUTTI_LGO": "error"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti env: TUTTI_LGO is set, but there is no such variable", done.stderr)

    def test_generates_the_documentation_page(self):
        self.assertTrue(tutti("env", "--markdown").stdout.startswith("# Environment variables\n"))


class AllCommands(unittest.TestCase):
    def test_have_help_with_an_example(self):
        for command in [], ["perf"], ["run"], ["topo"], ["info"], ["env"]:
            done = tutti(*command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Example", done.stdout)

    def test_must_exist(self):
        for arguments, name in ([], "tutti"), (["dance"], "tutti"), (["info", "--loud"], "tutti info"):
            done = tutti(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stdout, "")
            self.assertIn(f"See {name} --help.", done.stderr)


if __name__ == "__main__":
    main()
