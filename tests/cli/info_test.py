"""tutti info, tutti env, and features common to all commands."""

import json
import os
import tempfile
import unittest

from support import main, tutti


class Info(unittest.TestCase):
    def test_describes_build_machine_and_transports(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("info", "--json", folder + "/info.json")
            with open(folder + "/info.json") as file:
                page = json.load(file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(page["tutti"], tutti("--version").stdout.split()[1])
        self.assertEqual(page["machine"]["host"], os.uname().nodename)
        self.assertEqual(page["this process"]["usable_processors"], len(os.sched_getaffinity(0)))
        for name in "local", "shm", "tcp":
            self.assertRegex(page["transports"][name], "^(usable|not usable): .")
        self.assertIn("usable", page["transports"]["local"])
        for section, content in page.items():
            self.assertIn(section, done.stdout)
            if isinstance(content, dict):
                for name, value in content.items():
                    self.assertIn(name, done.stdout)
                    self.assertIn(str(value), done.stdout)

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
        for command in [], ["perf"], ["run"], ["info"], ["env"]:
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
