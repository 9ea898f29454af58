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
import re, runpy, sys
sys.path.insert(0, "tools")
import release_page as page
def read(log):
    return {"figure": re.search(r"^figure (.*)$", log, re.M)[1] if "figure" in log else (_ for _ in ()).throw(ValueError("none")),
            "missed": re.findall(r"^missed (.*)$", log, re.M)}
def part(name, command, minutes=1):
    return page.Part(name, f"the part {name}", ("sh", "-c", f"echo {name} >>build/ran; " + command), minutes, read)
page.PARTS = (part("full", "echo 'figure 7 tests'; echo 'missed a goal'"), part("second", SECOND))
sys.argv = ["tools/release", *sys.argv[1:]]
runpy.run_path("tools/release", run_name="__main__")
"""


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in ("tools/release", "tools/release_page.py", "bench/vs_peers_lib"):
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

    def command(self, second, *words):
        return [sys.executable, "-B", "-c", f"SECOND = {second!r}\n{WITH_PARTS}", *words]

    def release(self, *words, second="echo 'figure 9 words'"):
        return subprocess.run(self.command(second, *words), cwd=self.root, capture_output=True, text=True)

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
        self.assertIn("full           the part full: not run", self.release("--list").stdout)
        self.assertEqual(self.release("--only", "full").returncode, 0)
        self.assertIn("Another program", self.page())
        kept = json.loads((self.root / "bench/results/release.json").read_text())
        self.assertEqual(list(kept["parts"]), ["full"])  # nothing of the commit before

    def test_the_rest_of_the_readme_is_not_what_it_writes(self):
        self.release()
        (self.root / "README.md").write_text((self.root / "README.md").read_text().replace("Text.", "Other text."))
        self.commit("Text")
        self.assertIn("the part full: not run", self.release("--list").stdout)

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

    def test_a_state_that_cannot_be_read_is_refused(self):
        (self.root / "bench/results/release.json").write_text("{")
        done = self.release()
        self.assertEqual((done.returncode, self.ran()), (1, []))
        self.assertIn("release.json is not readable", done.stderr)

    def test_an_unknown_part_is_refused(self):
        done = self.release("--only", "full,third")
        self.assertEqual((done.returncode, self.ran()), (1, []))
        self.assertIn("there is no part third; the parts are full, second", done.stderr)

    def test_stopped_it_keeps_what_ended_and_ends_what_ran(self):
        running = subprocess.Popen(self.command("echo $$ >build/pid; sleep 60"), cwd=self.root, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while not (self.root / "build/pid").exists() or not (self.root / "build/pid").read_text():
            time.sleep(0.05)  # a process outside tells nothing else
        running.send_signal(signal.SIGINT)
        self.assertIn("stopped; the parts that ended are kept", running.communicate(timeout=30)[1])
        pid = (self.root / "build/pid").read_text().strip()
        self.assertNotIn("sleep", pathlib.Path(f"/proc/{pid}/cmdline").read_text() if pathlib.Path(f"/proc/{pid}").exists() else "")
        self.assertIn("the part full: passed", self.release("--list").stdout)


if __name__ == "__main__":
    unittest.main()
