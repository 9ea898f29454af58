"""bench/build: what it reads out of ninja's log and ctest's results."""

import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

from support import SOURCE, main

LOADER = importlib.machinery.SourceFileLoader("build_times", str(pathlib.Path(SOURCE) / "bench" / "build"))
TIMES = importlib.util.module_from_spec(importlib.util.spec_from_loader("build_times", LOADER))
LOADER.exec_module(TIMES)
HEADER = "# ninja log v5\n"
# start, end (ms), time stamp, what was made, hash of the command
FIRST = ("0\t1000\t1\ttests/CMakeFiles/tutti_unit_tests.dir/Unity/unity_0_cxx.cxx.o\tb2\n"
         "0\t3000\t1\tCMakeFiles/tutti_objects.dir/src/reduce/fold_sum.cpp.o\ta1\n"
         "1000\t4500\t1\tlib.fatbin\tc3\n"
         "1000\t4500\t1\tfolder/lib.cubin\tc3\n")
TESTS = """<testsuite tests="3" time="7"><testcase name="cli.plan" time="2.5" status="run"/>
<testcase name="cli.plan.list" time="1.5" status="run"/><testcase name="Suite.Name" time="4" status="run"/>
<testcase name="cli.page" time="0" status="notrun"/></testsuite>"""


class Build(unittest.TestCase):
    def log(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        page = pathlib.Path(folder.name) / ".ninja_log"
        page.write_text(text)
        return page

    def test_a_step_that_makes_two_files_counts_once(self):
        self.assertEqual(sorted(seconds for seconds, _ in TIMES.steps_of(self.log(HEADER + FIRST))), [1.0, 3.0, 3.5])

    def test_of_a_repeated_step_the_last_time_counts(self):
        again = "0\t500\t2\tCMakeFiles/tutti_objects.dir/src/reduce/fold_sum.cpp.o\ta1\n"
        self.assertEqual(sorted(seconds for seconds, _ in TIMES.steps_of(self.log(HEADER + FIRST + again))), [0.5, 1.0, 3.5])

    def test_groups_by_part(self):
        self.assertEqual([TIMES.group_of(output) for _, output in TIMES.steps_of(self.log(HEADER + FIRST))],
                         ["tests", "folds, for each kind of processor", "kernels for GPUs, by nvcc"])

    def test_reads_ctests_results(self):
        tests, wall = TIMES.tests_of(self.log(TESTS))
        self.assertEqual((len(tests), wall), (3, 7.0))
        self.assertEqual(sorted(TIMES.summed(tests, TIMES.kind_of)), [("GoogleTest", 4.0, 1), ("cli.plan", 4.0, 2)])
        self.assertEqual(TIMES.table([("a", 9.0, 1), ("b", 2.0, 3), ("c", 1.0, 1)], least=5), ["| a | 9 | 1 |", "| 2 others | 3 | 4 |"])


if __name__ == "__main__":
    main()
