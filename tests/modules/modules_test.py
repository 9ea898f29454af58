"""Transport modules as users meet them: tutti info, TUTTI_TRANSPORT, libtutti.so, and a set-uid program.

    modules_test.py TUTTI LIBRARY FOLDER      the command line; libtutti.so, or "none"; the folder with the tests' modules
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TUTTI, LIBRARY, FOLDER = sys.argv[1:4]
MODULES = {"TUTTI_MODULE_PATH": FOLDER, "TUTTI_MODULES": "push"}
LIMIT = 60  # seconds until a hanging test fails
NOBODY = 65534


def run(*command, env=MODULES, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **env}, **options)


def unwrapped(page):
    """The text of `tutti info` with each entry on one line."""
    return re.sub(r"\n {3,}(?=\S)", " ", page)


class CommandLine(unittest.TestCase):
    def test_info_says_what_is_usable_and_why_not(self):
        page = run(TUTTI, "info", env={**MODULES, "TUTTI_MODULES": "push,stub_needs,stub_symbol,unfit,absent"}).stdout
        for line in ("  push               usable: threads of one process; ",
                     f"  stub_needs         not usable: {FOLDER}/libtutti_stub_needs.so: it needs revision ",
                     f"  stub_symbol        not usable: {FOLDER}/libtutti_stub_symbol.so is no module of Tutti: ",
                     f"  unfit              not usable: {FOLDER}/libtutti_unfit.so: no device ",
                     f"  absent             not usable: not installed (libtutti_absent.so is in none of {FOLDER}, /",
                     f"  verbs              not usable: not installed (libtutti_verbs.so is in none of {FOLDER}, /"):
            self.assertIn(line, unwrapped(page))

    def test_info_looks_for_no_other_modules(self):
        page = run(TUTTI, "info", env={"TUTTI_MODULE_PATH": FOLDER}).stdout
        self.assertNotIn("push", page)
        for name in "verbs", "ucx", "cuda":
            self.assertIn(f"\n  {name:<19}not usable: not installed", page)

    def test_a_module_that_is_named_but_unusable_is_warned_of(self):
        done = run(TUTTI, "info", env={**MODULES, "TUTTI_MODULES": "absent,tcp"})
        self.assertIn("warning: TUTTI_MODULES: module absent cannot be used: not installed (", done.stderr)
        self.assertIn("warning: TUTTI_MODULES names tcp, which is not a module: it is built in", done.stderr)
        self.assertRegex(done.stdout, "\n  tcp +usable")

    def test_a_forced_transport_that_is_unusable_is_an_error_with_the_reason(self):
        for name, reason in (("verbs", "not installed (libtutti_verbs.so is in none of "),
                             ("stub_abi", f"{FOLDER}/libtutti_stub_abi.so: its module interface is number ")):
            done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8",
                       env={**MODULES, "TUTTI_MODULES": "stub_abi", "TUTTI_TRANSPORT": name})
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"TUTTI_TRANSPORT: transport {name} cannot be used: {reason}", done.stderr)
        done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8", env={"TUTTI_TRANSPORT": "push"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no transport 'push'; there are local, shm, tcp (TUTTI_MODULES adds more)", done.stderr)

    def test_calls_go_over_a_forced_module(self):
        done = run(TUTTI, "perf", "all_reduce", "-t", "3", "-b", "8", "-e", "1M", "-f", "64",
                   env={**MODULES, "TUTTI_TRANSPORT": "push"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(" push ", done.stdout)
        self.assertIn("Out of bounds values : 0 OK", done.stdout)

    def test_calls_go_over_modules_of_an_older_and_a_newer_version(self):
        for name in "push_old", "push_new":
            done = run(TUTTI, "perf", "all_reduce", "-t", "3", "-b", "8", "-e", "1M", "-f", "64",
                       env={**MODULES, "TUTTI_MODULES": name, "TUTTI_TRANSPORT": name, "TUTTI_LOG": "debug"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f" {name} ", done.stdout)
            self.assertIn("Out of bounds values : 0 OK", done.stdout)
            self.assertRegex(done.stderr, r"tutti \d+ debug: push: rank 1\n")

    def test_a_profile_has_the_figures_of_any_transport_by_its_name(self):
        page = {"format": "tutti-profile", "version": 1, "links": {"push": {"alpha": 77e-6, "beta": 1e-9}}, "measured": []}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(page, file)
            file.flush()
            done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8",
                       env={**MODULES, "TUTTI_TRANSPORT": "push", "TUTTI_PROFILE": file.name, "TUTTI_EXPLAIN": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"inside a host: 77 us and 1 GB/s \(.*push, measured")

    def test_calls_run_on_a_backend_of_a_module(self):
        done = run(TUTTI, "perf", "all_reduce", "-t", "3", "-b", "8", "-e", "1M", "-f", "64",
                   env={**MODULES, "TUTTI_MODULES": "example"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(" example ", done.stdout)
        self.assertIn("Out of bounds values : 0 OK", done.stdout)

    def test_two_backends_that_own_the_same_memory_are_an_error(self):
        done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8", env={**MODULES, "TUTTI_MODULES": "example,example2"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "two backends, example and example2, own the memory at 0x")

    def test_a_backend_of_another_version_is_refused_and_the_rest_goes_on(self):
        env, reason = {**MODULES, "TUTTI_MODULES": "example_old"}, "its backend was compiled with other headers of this library"
        self.assertRegex(unwrapped(run(TUTTI, "info", env=env).stdout), f"  example_old +not usable: {reason}")
        done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"warning: module example_old cannot be used: {reason}", done.stderr)

    def test_a_processor_that_cannot_be_used_leaves_calls_to_the_host(self):
        done = run(TUTTI, "perf", "all_reduce", "--np", "2", "-e", "8", env={**MODULES, "TUTTI_MODULES": "example"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("calls on memory of example cannot be made on", done.stderr)
        self.assertIn("the ranks are not threads of one process", done.stderr)

    def test_a_backend_that_breaks_while_it_is_made_refuses_its_own_calls(self):
        reasons = {"broken_make": "std::bad_alloc", "broken_meet": "the backend broken_meet met 0 processors of 1 rank"}
        for name, reason in reasons.items():
            done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8", env={**MODULES, "TUTTI_MODULES": name})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"calls on memory of {name} cannot be made on", done.stderr)
            self.assertIn(reason, done.stderr)

    def test_a_module_logs_through_the_library_and_reads_no_environment_of_its_own(self):
        done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8",
                   env={**MODULES, "TUTTI_TRANSPORT": "push", "TUTTI_LOG": "debug", "TUTTI_NO_SUCH": "1"})
        self.assertRegex(done.stderr, r"tutti \d+ debug: push: rank 1\n")
        self.assertEqual(done.stderr.count("TUTTI_NO_SUCH"), 1, done.stderr)
        done = run(TUTTI, "perf", "all_reduce", "-t", "2", "-e", "8", env={**MODULES, "TUTTI_TRANSPORT": "push"})
        self.assertNotIn("push: rank", done.stderr)

    def test_ranks_with_different_modules_get_an_error(self):
        only_one = '[ "$TUTTI_RANK" = 0 ] || unset TUTTI_MODULES; exec "$0" perf all_reduce -e 8'
        done = run(TUTTI, "run", "-n", "2", "--", "sh", "-c", only_one, TUTTI)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"the list of transports \(.*\) is \[.*\] on rank [01] but \[.*\] on rank [01]; it "
                                      "must be the same on all ranks")
        done = run(TUTTI, "run", "-n", "2", "--", "sh", "-c", only_one, TUTTI, env={**MODULES, "TUTTI_TRANSPORT": "tcp"})
        self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipIf(LIBRARY == "none", "a sanitized library can be used only by sanitized programs")
class Library(unittest.TestCase):
    """libtutti.so and its modules share no symbols; still it takes their exceptions."""

    MAKE_TWO_RANKS = """
import ctypes, sys
tutti = ctypes.CDLL(sys.argv[1])
tutti.tuttiGetLastError.restype = ctypes.c_char_p
result = tutti.tuttiCommInitAll((ctypes.c_void_p * 2)(), 2)
print(result, tutti.tuttiGetLastError().decode())
"""

    def make_two_ranks(self, transport, **options):
        env = {**MODULES, "TUTTI_MODULES": "push,thrower", "TUTTI_TRANSPORT": transport}
        return run(sys.executable, "-c", self.MAKE_TWO_RANKS, LIBRARY, env=env, **options).stdout

    def test_has_modules_that_export_one_symbol(self):
        shown = run("nm", "-D", "--defined-only", FOLDER + "/libtutti_push.so").stdout
        self.assertRegex(shown, r"^\w+ T tutti_module\n$")

    def test_opens_a_module(self):
        self.assertEqual(self.make_two_ranks("push"), "0 \n")

    def test_reports_a_modules_error_with_its_code_and_text(self):
        self.assertRegex(self.make_two_ranks("thrower"), "^4 .*thrower has no room for rank [01]\n$")


class SetUid(unittest.TestCase):
    def test_takes_no_module_from_the_environment_or_from_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            if os.geteuid() != 0 or os.statvfs(folder).f_flag & os.ST_NOSUID:
                self.skipTest("a set-uid program needs root, and a file system that permits it")
            os.chmod(folder, 0o755)
            program = shutil.copy(TUTTI, folder)
            os.chmod(program, 0o4755)
            shutil.copy(FOLDER + "/libtutti_push.so", folder + "/libtutti_verbs.so")
            page = run(program, "info", env={"TUTTI_MODULES": "push", "TUTTI_MODULE_PATH": FOLDER}, user=NOBODY).stdout
            self.assertNotIn("push", page)
            self.assertIn("\n  verbs              not usable: not looked for: there is no folder to search; TUTTI_MODULES "
                          "and TUTTI_MODULE_PATH are ignored: this program runs with rights that its caller lacks", unwrapped(page))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
