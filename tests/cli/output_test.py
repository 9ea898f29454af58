"""Files that commands write: tried before the work, and never one that the command reads."""

import os
import shutil
import tempfile
import unittest

from support import main, tutti

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies", "nccl-pcie-2-sockets.xml")
NOWHERE = "/no/such/folder/file"
# Each has a second fault, which is found when the work begins.
COMMANDS = (
    ("plan", "synth", "all_produce", "--topo", SAMPLE, "-o", NOWHERE),
    ("plan", "synth", "all_produce", "--topo", SAMPLE, "--json", NOWHERE),
    ("plan", "draw", "ring", "-n", "65", "-o", NOWHERE + ".svg"),
    ("plan", "draw", "ring", "--topo", "/none", "-o", NOWHERE + ".svg"),
    ("plan", "export", "ring", "--groups", "9", "-o", NOWHERE),
    ("plan", "import", "/none", "-o", NOWHERE),
    ("sim", "all_reduce", "--algo", "none", "--svg", NOWHERE),
    ("sim", "all_reduce", "--algo", "none", "--trace", NOWHERE),
    ("sim", "all_reduce", "--algo", "none", "-o", NOWHERE + ".json"),
    ("lab", "--gpu", "none", "--html", NOWHERE),
    ("lab", "--gpu", "none", "--json", NOWHERE),
    ("explain", "all_reduce", "--topo", "/none", "-o", NOWHERE + ".json"),
    ("topo", "--import", "/none", "--svg", NOWHERE),
    ("topo", "--import", "/none", "--json", NOWHERE),
    ("trace", "/none", "-o", NOWHERE + ".svg"),
    ("tune", "-e", "8", "-o", NOWHERE),
    ("plan", "list", "-o", NOWHERE),
    ("info", "-o", NOWHERE + ".json"),
)


class Output(unittest.TestCase):
    def test_a_file_that_cannot_be_written_is_refused_before_the_work(self):
        for words in COMMANDS:
            with self.subTest(words=words):
                done = tutti(*words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(f"{words[-1]}: No such file or directory", done.stderr)

    def test_what_the_command_reads_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            topo, link = folder + "/topo.svg", folder + "/link.svg"  # pictures have this ending
            shutil.copy(SAMPLE, topo)
            os.symlink(topo, link)
            with open(topo) as file:
                text = file.read()
            for file in topo, link:
                for words in (("plan", "synth", "all_gather", "--topo", topo, "--no-sim", "-o", file),
                              ("plan", "synth", "all_gather", "--topo", topo, "--json", file),
                              ("plan", "draw", "all_reduce", "ring", "--topo", topo, "-o", file),
                              ("sim", "all_reduce", "--topo", topo, "--svg", file),
                              ("lab", "--topo", topo, "--html", file),
                              ("topo", "--import", topo, "--svg", file)):
                    with self.subTest(words=words):
                        done = tutti(*words)
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertIn(f"{file}: this command reads that file", done.stderr)
                        with open(topo) as now:
                            self.assertEqual(now.read(), text)

    def test_a_refused_command_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in (("lab", "--gpu", "none", "--html"), ("sim", "all_reduce", "--algo", "none", "--trace")):
                self.assertEqual(tutti(*words, folder + "/file").returncode, 2)
            self.assertEqual(os.listdir(folder), [])

    def test_tune_makes_no_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(tutti("tune", "-e", "8", "-o", folder + "/deep/p.json").returncode, 1)
            self.assertEqual(os.listdir(folder), [])

    def test_the_ending_says_what_is_written(self):
        done = tutti("plan", "draw", "ring", "-n", "65", "-o", "a.png")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("-o a.png: its ending says what is written: FILE.svg the picture", done.stderr)


if __name__ == "__main__":
    main()
