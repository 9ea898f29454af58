"""tools/release in a small repository whose parts are a few shell commands: what it keeps, resumes, refuses and writes."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = "# A program\n\n<!-- release: written by tools/release -->\n<!-- end of release -->\n\nText.\n"
# tools/release with other parts: each counts in a file that git ignores how often it ran.
WITH_PARTS = """
import re, runpy, subprocess, sys, time
sys.path.insert(0, "tools")
import release_parts as parts
def read(log):
    if "ctest" in log:
        return parts.read_tests(log)
    return {"figure": re.search(r"^figure (.*)$", log, re.M)[1] if "figure" in log else (_ for _ in ()).throw(ValueError("none")),
            "missed": re.findall(r"^missed (.*)$", log, re.M)}
def part(name, command, minutes=1, page=""):
    return parts.Part(name, f"the part {name}", ("sh", "-c", f"echo {name} >>build/ran; " + command), minutes, read, page=page, by_name=name == "second")
parts.PARTS = (part("full", "echo 'figure 7 tests'; echo 'missed a goal'"), part("second", SECOND, page=PAGE))
class SlowPopen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        time.sleep(1 if options.get("start_new_session") else 0)
if SLOW:
    subprocess.Popen = SlowPopen
sys.argv = ["tools/release", *sys.argv[1:]]
runpy.run_path("tools/release", run_name="__main__")
"""


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in ("tools/release", "tools/release_commits.py", "tools/release_page.py", "tools/release_parts.py", "bench/vs_peers_lib"):
            (shutil.copytree if (ROOT / path).is_dir() else self.copy)(ROOT / path, self.root / path)
        for path, text in {"README.md": README, "docs/reliability.md": "", "source": "1\n", ".gitignore": "build/\n__pycache__/\n",
                           "bench/results/kept": "", "build/ran": ""}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.git("init", "-q", "-b", "main")
        self.commit("The program")

    @staticmethod
    def copy(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def git(self, *words):
        who = ["-c", "user.name=A Tester", "-c", "user.email=tester@example.org"]
        return subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self, subject):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)

    def command(self, second, *words, page="", slow=False):
        return [sys.executable, "-B", "-c", f"SECOND, PAGE, SLOW = {second!r}, {page!r}, {slow}\n{WITH_PARTS}", *words]

    def release(self, *words, second="echo 'figure 9 words'", page=""):
        return subprocess.run(self.command(second, *words, page=page), cwd=self.root, capture_output=True, text=True)

    def ran(self):
        return (self.root / "build/ran").read_text().split()

    def page(self):
        return (self.root / "docs/release.md").read_text()

    def test_it_runs_all_parts_and_writes_what_they_came_to(self):
        done = self.release()
        self.assertEqual((done.returncode, self.ran()), (0, ["full", "second"]), done.stderr)
        self.assertIn("| passed | 0 min | 7 tests |", self.page())
        self.assertIn("- a goal", self.page())
        self.assertIn("The program", self.page())
        readme = (self.root / "README.md").read_text()
        self.assertIn("- The part full: 7 tests.\n<!-- end of release -->\n\nText.\n", readme)
        self.assertNotIn("9 words", readme)  # not one of those that stand there

    def test_it_resumes_with_what_has_not_passed(self):
        self.assertEqual(self.release(second="exit 3").returncode, 1)
        self.assertIn("**failed**", self.page())
        self.assertEqual(self.release().returncode, 0)
        self.assertEqual(self.ran(), ["full", "second", "second"])
        self.assertEqual(self.release("--only", "full").returncode, 0)  # asked for by name: again
        self.assertEqual(self.ran()[3:], ["full"])

    def test_with_only_the_others_may_be_missing(self):
        self.assertEqual(self.release("--only", "full", second="exit 3").returncode, 0)
        self.assertEqual(self.ran(), ["full"])
        self.assertIn("| the part second |", self.page())
        self.assertIn("not run", self.page())

    def test_what_it_writes_is_no_other_commit(self):
        self.release()
        self.commit("Results")
        self.assertIn("full           the part full: passed: 7 tests", self.release("--list").stdout)
        (self.root / "source").write_text("2\n")
        self.commit("Another program")
        old = self.git("rev-parse", "HEAD~2").strip()
        self.assertIn(f"full           the part full: passed at {old[:10]}, 2 commits before: 7 tests", self.release("--list").stdout)
        self.assertEqual(self.release("--only", "full").returncode, 0)
        self.assertIn("Another program", self.page())
        kept = json.loads((self.root / "bench/results/release.json").read_text())["parts"]
        self.assertEqual((kept["full"]["commit"] == old, kept["second"]["commit"] == old), (False, True))
        self.assertIn("| passed | 0 min | 7 tests |", self.page())
        self.assertIn(f"| passed at {old[:10]}, 2 commits before | 0 min | 9 words |", self.page())
        self.assertEqual((self.release().returncode, self.ran()), (0, ["full", "second", "full", "second"]))

    def test_a_commit_of_tests_and_texts_has_the_same_program(self):
        self.release()
        for path in ("tests/a_test", "docs/page.md", "CHANGELOG.md"):
            (self.root / path).parent.mkdir(exist_ok=True)
            (self.root / path).write_text("more")
        self.commit("Tests")
        old = self.git("rev-parse", "HEAD~1").strip()
        self.assertEqual((self.release().returncode, self.ran()), (0, ["full", "second"]))
        self.assertIn(f"| passed at {old[:10]}, 1 commits before, the same program | 0 min | 7 tests |", self.page())
        (self.root / "tools/tests").write_text("a part of the program")
        self.commit("Program")
        self.assertEqual((self.release().returncode, self.ran()), (0, ["full", "second", "full", "second"]))

    def test_a_commit_of_comments_has_the_same_program(self):
        code = """#define TWO 1 + 1{}
const char *a = "// no comment", *b = R"(/* nor this */ "

)";{}
int c = 1'000'000 + 0xF'A + u8'"' + '"';{}
"""
        path = self.root / "source.cpp"
        path.write_text(code.format("", "", ""))
        self.commit("Source")
        self.release()
        for comments in (("  // a sum", "", ""), ("", " /* two\n lines */", "  // one, which \\\n goes on"), ("", "\n// \"\n", "")):
            path.write_text(code.format(*comments))
            self.commit("Comments")
            self.assertEqual((self.release().returncode, self.ran()), (0, ["full", "second"]), comments)
        for count, (word, other) in enumerate((("no comment", "none"), ("nor this", "nor that"), ("'000'", "'001'"), ("TWO", "_2"),
                                                 ("*/ \"\n\n", "*/ \"\n"), ("u8", "  // NOLINT\n  u8")), 2):
            path.write_text(path.read_text().replace(word, other))
            self.commit("Program")
            self.assertEqual((self.release().returncode, self.ran()), (0, ["full", "second"] * count), word)

    def test_failed_tests_can_be_run_again_alone(self):
        log = self.root / "build/log"
        log.write_text(CTEST.replace("plan (", "plan [a.b] ("))
        second = "cat build/log; echo ctest; echo \"$1\" >>build/ran; exit $(cat build/status)"
        (self.root / "build/status").write_text("1")
        self.assertEqual(self.release(second=second).returncode, 1)
        (self.root / "tests").mkdir()
        (self.root / "tests/a").write_text("mended")
        self.commit("A test is mended")
        def again(log_of_it):
            log.write_text(log_of_it)
            return self.release("--failed", "second", second=second)

        end = "\n\nTotal Test time (real) =  2.00 sec\n"
        failing = "\nThe following tests FAILED:\n\t 14 - plan [a.b] (NUMERICAL)\n"
        self.assertEqual(again("67% tests passed, 1 tests failed out of 3" + end + failing).returncode, 1)
        names = r"^(Modes/Zero\.Learns/1-byte object <03>|fault\.strangers|plan \[a\.b\])$"
        self.assertEqual((self.root / "build/ran").read_text().splitlines()[-1], names)
        (self.root / "build/status").write_text("0")
        done = again("100% tests passed, 0 tests failed out of 1" + end)  # the others are mended already
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.root / "build/ran").read_text().splitlines()[-1], r"^(plan \[a\.b\])$")
        head = self.git("rev-parse", "HEAD").strip()[:10]
        for name in ("fault.strangers", "plan [a.b]"):
            self.assertIn(f"- failed, and passed when run again at {head}: {name}\n", self.page())
        self.assertIn("6 tests, 3 failed", self.page())

    def test_failed_alone_is_refused_where_it_would_hide_something(self):
        self.release(second="exit 3")
        for words, why in ((("--failed", "second"), "no failed tests that can be run alone"),
                           (("--failed", "full"), "no failed tests that can be run alone"),
                           (("--failed", "third"), "there is no part third"),
                           (("--failed", "full", "--only", "full"), "give one")):
            done = self.release(*words)
            self.assertEqual((done.returncode, self.ran()), (1, ["full", "second"]))
            self.assertIn(why, done.stderr)
        (self.root / "build/log").write_text(CTEST)
        self.release("--only", "second", second="cat build/log; echo ctest; exit 1")
        done = self.release("--failed", "second", second="sed s/of.6/of\\ 2/ build/log; echo ctest")  # one is not there any more
        self.assertIn("3 tests failed, and 2 ran now", done.stderr)
        (self.root / "build/log").write_text(CTEST.replace("plan (N", "plan [N"))
        self.release("--only", "second", second="cat build/log; echo ctest; exit 1")
        self.assertIn("it names 2 of 3 failed tests", self.release("--failed", "second").stderr)
        (self.root / "build/log").write_text(CTEST)
        self.release("--only", "second", second="cat build/log; echo ctest; exit 1")
        (self.root / "source").write_text("2\n")
        self.commit("Another program")
        self.assertIn("the program is not the one of", self.release("--failed", "second").stderr)

    def test_the_rest_of_the_readme_is_not_what_it_writes(self):
        self.release()
        (self.root / "README.md").write_text((self.root / "README.md").read_text().replace("Text.", "Other text."))
        self.commit("Text")
        self.assertIn("the part full: passed at", self.release("--list").stdout)

    def test_changes_that_are_not_committed_are_refused(self):
        (self.root / "source").write_text("2\n")
        (self.root / "new").write_text("")
        done = self.release()
        self.assertEqual((done.returncode, self.ran()), (1, []))
        self.assertIn("not committed:\n  source\n  new\n", done.stderr)

    def test_a_part_during_which_files_change_has_not_passed(self):
        done = self.release(second="echo 'figure 9'; echo 3 >source")
        self.assertEqual(done.returncode, 1)
        self.assertIn("files changed meanwhile: source; 9", self.page())

    def test_a_part_without_figures_or_time_has_not_passed(self):
        self.assertEqual(self.release(second="echo nothing").returncode, 1)
        self.assertIn("no figures: none", self.page())

    def test_a_part_that_did_not_write_its_page_has_not_passed(self):
        self.assertEqual(self.release(page="kept").returncode, 1)
        self.assertIn("no figures: bench/results/kept was not written", self.page())
        self.assertEqual(self.release(page="kept", second="echo 'figure 9' >bench/results/kept; echo 'figure 9'").returncode, 0)

    def test_a_part_whose_program_is_not_there_has_not_passed(self):
        self.assertEqual(self.release(second="exec no_such_program").returncode, 1)
        self.assertEqual(self.ran(), ["full", "second"])

    def test_states_that_cannot_be_read_are_refused(self):
        for text in "{", "[]", '{}', '{"parts": []}', '{"parts": {"full": {"passed": 7}}}':
            (self.root / "bench/results/release.json").write_text(text)
            done = self.release()
            self.assertEqual((done.returncode, self.ran()), (1, []), text)
            self.assertIn("release.json is not readable", done.stderr)

    def test_unknown_parts_are_refused(self):
        for only, words in ("full,third", "third"), ("", "(empty)"), (",", "(empty)"):
            done = self.release("--only", only)
            self.assertEqual((done.returncode, self.ran()), (1, []))
            self.assertIn(f"there is no part {words}", done.stderr)

    def test_a_readme_without_a_place_for_figures_is_refused(self):
        (self.root / "README.md").write_text("# A program\n")
        self.commit("No place")
        done = self.release()
        self.assertEqual((done.returncode, self.ran()), (1, []))
        self.assertIn("README.md lacks the comments", done.stderr)

    def test_without_results_there_is_no_page(self):
        self.assertIn("no part has a result", self.release("--page").stderr)
        self.assertFalse((self.root / "docs/release.md").exists())

    def test_what_is_no_repository_is_refused_in_the_words_of_git(self):
        shutil.rmtree(self.root / ".git")
        self.assertIn("tools/release: git diff: ", self.release().stderr)

    def running(self, slow=False):
        """A run whose second part waits, and the process of that part. Slow: the part is there a second before Popen returns."""
        process = subprocess.Popen(self.command("echo $$ >build/pid; exec sleep 60", slow=slow), cwd=self.root,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pid = self.root / "build/pid"
        while not pid.exists() or not pid.read_text().endswith("\n"):
            self.assertIsNone(process.poll(), "it ended before its second part ran")
            time.sleep(0.05)  # a process outside tells nothing else
        return process, pathlib.Path("/proc", pid.read_text().strip(), "cmdline")

    def wait_for_the_end_of(self, part):
        """It was sent a signal, and ends when it is next scheduled."""
        end = time.monotonic() + 10
        while part.exists() and part.read_text():
            self.assertLess(time.monotonic(), end, "it still runs")
            time.sleep(0.01)

    def test_stopped_it_keeps_what_ended_and_ends_what_runs(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            process, part = self.running(slow=number == signal.SIGTERM)
            process.send_signal(number)
            self.assertIn("stopped; the parts that ended are kept", process.communicate(timeout=30)[1])
            self.wait_for_the_end_of(part)
            self.assertIn("the part full: passed", self.release("--list").stdout)
            (self.root / "build/pid").unlink()

    def test_two_at_a_time_are_refused(self):
        process, _ = self.running()
        self.assertIn("another one runs in this folder", self.release().stderr)
        process.terminate()
        process.communicate()


CTEST = """
50% tests passed, 3 tests failed out of 6

Total Test time (real) =  62.00 sec

The following tests FAILED:
\t 12 - Modes/Zero.Learns/1-byte object <03> (Failed)
\t 13 - fault.strangers (Subprocess killed)
\t 14 - plan (NUMERICAL)
Errors while running CTest

== left out of this run
  not built: cuda: nvcc was not found
  skipped: cli.lab_page: no chromium
"""


class Readers(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(ROOT / "tools"))
        self.addCleanup(sys.path.remove, str(ROOT / "tools"))
        import release_parts
        self.parts = release_parts

    def test_tests(self):
        came = self.parts.read_tests(CTEST)
        self.assertEqual(came["figure"], "6 tests, 3 failed, 1 with something skipped; 1 min of tests")
        self.assertEqual(came["missed"], ["failed: Modes/Zero.Learns/1-byte object <03>", "failed: fault.strangers", "failed: plan",
                                          "not built: cuda: nvcc was not found", "skipped: cli.lab_page: no chromium"])
        with self.assertRaisesRegex(ValueError, "all 1 tests were skipped"):
            self.parts.read_tests(CTEST.replace("50% tests passed, 3 tests failed out of 6", "100% tests passed, 0 tests failed out of 1"))

    def test_others(self):
        self.assertEqual(self.parts.read_tidy("== clang-tidy\na.cpp:1:2: error: x [y]\n")["figure"], "1 findings")
        fuzz = self.parts.read_fuzz("plan_fuzz: Done 12345 runs in 301 second(s)\n== bytes_fuzz found a defect (above)\n")
        self.assertEqual((fuzz["figure"], fuzz["missed"]), ("plan 12,345 inputs in 301 s", ["bytes_fuzz found a defect"]))
        soak = self.parts.read_soak("  hang: rank 1\n\n400 programs, 1 findings\n12 starts in 0.100 s at most, 0.050 s undisturbed\n")
        self.assertEqual(soak["missed"], ["hang: rank 1"])
        self.assertTrue(soak["figure"].startswith("400 programs, 1 findings; 12 starts in"))
        torch = self.parts.read_torch("LD_PRELOAD: torch.cuda.nccl.version() is 2; of 83 symbols 83 are bound to it\nRan 52 tests in 9.1s\n\nOK (skipped=1)\n"
                                      "test_a (x.Y.test_a) ... skipped 'why'\n")
        self.assertEqual(torch["figure"], "52 tests: OK; 83 of 83 symbols of PyTorch bound to libnccl.so.2")
        self.assertEqual(torch["missed"], ["skipped: test_a (x.Y.test_a)"])

    def test_a_log_that_was_cut_off_has_no_figures(self):
        for part in self.parts.PARTS:
            if not part.page:
                with self.subTest(part.name), self.assertRaises(ValueError):
                    part.read("tools/release: cut off\n")

    def test_kept_pages_can_be_read(self):
        for part in self.parts.PARTS:
            if part.page:
                with self.subTest(part.name):
                    self.assertTrue(part.read("")["figure"])


if __name__ == "__main__":
    unittest.main()
