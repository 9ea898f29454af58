"""tutti itself: help, version, and unknown words."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import LIMIT, TUTTI, main, tutti

COMMANDS = ("perf", "run", "status", "top", "trace", "watch", "plan", "topo", "explain", "tune", "train", "lab", "info", "env")


class Main(unittest.TestCase):
    def test_help_is_a_word_or_a_flag(self):
        done = tutti("help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, tutti("--help").stdout)
        for command in COMMANDS:
            done = tutti("help", command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, tutti(command, "--help").stdout)
        self.assertIn("Examples:", tutti("help", "plan", "draw").stdout)

    def test_version_is_a_word_or_a_flag(self):
        done = tutti("version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^tutti \d+\.\d+\.\d+\n$")
        self.assertEqual(done.stdout, tutti("--version").stdout)

    def test_tidy_tells_how_it_is_called_before_it_does_anything(self):
        tidy = pathlib.Path(__file__).resolve().parents[2] / "tools" / "tidy"
        for arguments, status in (["--help"], 0), ([], 2):
            done = subprocess.run([tidy, *arguments], capture_output=True, text=True, timeout=LIMIT, env={"PATH": "/usr/bin:/bin"})
            self.assertEqual((done.returncode, done.stderr), (status, ""))
            self.assertIn("tools/tidy CLANG_TIDY [FILE…]", done.stdout)

    def test_names_an_unknown_word(self):
        for arguments, words in (
                (("bogus",), "tutti: there is no command 'bogus'; there are perf, run, status, top, trace, watch, explain, plan, topo, sim, tune, train, lab, info, env"),
                (("prf", "all_reduce"), "there is no command 'prf' (did you mean perf?); there are "),
                (("help", "plam"), "there is no command 'plam' (did you mean plan?); there are "),
                ((), "tutti: say what to do: perf, run, status, top, trace, watch, explain, plan, topo, sim, tune, train, lab, info, env"),
                (("plan",), "tutti plan: say what to do: list, show, "),
                (("--bogus",), "there is no option --bogus"),
                (("info", "--jsn", "x"), "tutti info: there is no option --jsn (did you mean --json?)")):
            with self.subTest(arguments):
                done = tutti(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_both_programs_list_the_same_commands(self):
        extra = str(pathlib.Path(TUTTI).with_name("tutti-extra"))
        self.assertEqual(tutti("--help").stdout, tutti("--help", binary=extra).stdout)
        self.assertEqual(tutti("perf", "--help").stdout, tutti("perf", "--help", binary=extra).stdout)

    def test_says_where_a_command_is_that_was_not_built(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(TUTTI, folder)
            self.assertEqual(tutti("env", binary=alone).returncode, 0)
            for arguments in ("plan", "list"), ("help", "plan"):
                done = tutti(*arguments, binary=alone)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f"tutti plan: this command is in another program, and {folder}/tutti-extra does not exist; build it "
                              "with tools/build", done.stderr)


if __name__ == "__main__":
    main()
