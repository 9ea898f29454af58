"""report.py on runs of ctest that are made here: what it finds, and what --strict refuses."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
PARTS = "in\ttrain\ttraining layer\tOpenBLAS\nout\tucx\ttransport ucx\tUCX was not found (package libucx-dev)\n"
PASSES = "enable_testing()\nadd_test(NAME passes COMMAND ${CMAKE_COMMAND} -E echo fine)\n"
PYTHON = "import unittest\nclass T(unittest.TestCase):\n  @unittest.skip('takes root')\n  def test(self): pass\nunittest.main(verbosity=2)\n"


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tests(self, tests, parts=PARTS):
        """A build folder in which ctest ran these."""
        (self.folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES NONE)\n" + tests)
        build = self.folder / "build"
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", build], check=True, capture_output=True)
        subprocess.run(["ctest", "--test-dir", build, "--output-junit", "tests.xml"], capture_output=True)
        (build / "parts.txt").write_text(parts)
        return build

    def report(self, build, allowed=None, *more):
        strict = [*more]
        if allowed is not None:
            (self.folder / "allowed").write_text(allowed)
            strict += ["--strict", self.folder / "allowed"]
        return subprocess.run([sys.executable, "-B", HERE / "report.py", build, *strict], capture_output=True, text=True)

    def test_parts_are_listed_with_their_reason(self):
        done = self.report(self.run_tests(PASSES))
        self.assertEqual((done.returncode, done.stdout), (0, "  not built: ucx: UCX was not found (package libucx-dev)\n"))

    def test_nothing_left_out_is_said(self):
        done = self.report(self.run_tests(PASSES, "in\tucx\ttransport ucx\tUCX\n"), "")
        self.assertEqual((done.returncode, done.stdout), (0, "  nothing: all parts are built, and no test was skipped\n"))

    def test_a_part_that_is_not_allowed_to_be_missing(self):
        build = self.run_tests(PASSES)
        done = self.report(build, "part verbs no reason\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NOT ALLOWED: not built: ucx: UCX was not found", done.stdout)
        self.assertIn("1 left out that ", done.stderr)
        self.assertEqual(self.report(build, "# a comment\n\npart ucx no network\n").returncode, 0)

    def test_parts_alone_need_no_run(self):
        (self.folder / "parts.txt").write_text(PARTS)
        done = self.report(self.folder, "part verbs no reason\n", "--parts")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NOT ALLOWED: not built: ucx: UCX was not found", done.stdout)
        self.assertEqual(self.report(self.folder, "part ucx no network\n", "--parts").returncode, 0)

    def test_checks_that_were_not_made(self):
        build = self.run_tests(PASSES, "")
        (build / "not_done.txt").write_text("formatting: no \x1b[1mclang-format")
        done = self.report(build, "")
        self.assertEqual((done.returncode, done.stdout), (1, "  NOT ALLOWED: not done: formatting: no  [1mclang-format\n"))
        self.assertEqual(self.report(build, "check formatting no reason\n").returncode, 0)

    def test_all_ways_to_skip(self):
        (self.folder / "some.py").write_text(PYTHON)
        build = self.run_tests(PASSES + f"""
add_test(NAME by_status COMMAND sh -c "echo 'skipped: no browser'; exit 77")
set_tests_properties(by_status PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME by_text COMMAND ${{CMAKE_COMMAND}} -E echo "skipped: no header")
set_tests_properties(by_text PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")
add_test(NAME by_googletest COMMAND printf "a.cpp:3: Skipped\\ntakes two users\\n\\n[  SKIPPED ] A.B (0 ms)\\n")
add_test(NAME in_part COMMAND {sys.executable} -B {self.folder}/some.py)
add_test(NAME disabled COMMAND false)
set_tests_properties(disabled PROPERTIES DISABLED TRUE)
add_test(NAME fails COMMAND sh -c "echo 'skipped: not this'; exit 1")
""", "")
        wanted = ["by_googletest: takes two users", "by_status: no browser", "by_text: no header",
                  "disabled: it did not run (disabled)", "in_part: takes root"]
        self.assertEqual(sorted(self.report(build).stdout.splitlines()), [f"  skipped: {line}" for line in wanted])
        done = self.report(build, "test by_* no reason\ntest disabled no reason\n")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line for line in done.stdout.splitlines() if "NOT ALLOWED" in line],
                         ["  NOT ALLOWED: skipped: in_part: takes root"])

    def test_a_run_that_is_not_complete(self):
        build = self.run_tests(PASSES)
        (build / "tests.xml").unlink()
        done = self.report(build)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no complete run of tests", done.stderr)

    def test_an_allowance_without_a_reason_is_refused(self):
        done = self.report(self.run_tests(PASSES), "part ucx\n")
        self.assertIn("allowed:1: wants `part NAME REASON`", done.stderr)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
