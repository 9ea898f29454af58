"""tutti itself: help, version, and unknown words."""

import unittest

from support import main, tutti

COMMANDS = ("perf", "run", "plan", "topo", "explain", "tune", "train", "lab", "info", "env")


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

    def test_names_an_unknown_word(self):
        for arguments, words in (
                (("bogus",), "tutti: there is no command 'bogus'; there are perf, run, plan, topo, explain, sim, tune, train, lab, info, env"),
                (("prf", "all_reduce"), "there is no command 'prf' (did you mean perf?); there are "),
                (("help", "plam"), "there is no command 'plam' (did you mean plan?); there are "),
                ((), "tutti: say what to do: perf, run, plan, topo, explain, sim, tune, train, lab, info, env"),
                (("plan",), "tutti plan: say what to do: list, show, "),
                (("--bogus",), "there is no option --bogus"),
                (("info", "--jsn", "x"), "tutti info: there is no option --jsn (did you mean --json?)")):
            with self.subTest(arguments):
                done = tutti(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    main()
