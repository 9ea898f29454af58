"""tools/gpu_check on the stand-in: all steps pass; and where one hangs and one fails, the rest still reports.

    check_test.py BUILD_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = sys.argv.pop(1)


class GpuCheck(unittest.TestCase):
    def check(self, part, *words):
        """(exit status, what was printed, what was written)."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-B", ROOT / "tools/gpu_check", "--fake", "--build", BUILD, "--part", part, "--out", folder, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=590, check=False)
            written = list(pathlib.Path(folder).iterdir())
            self.assertEqual(len(written), 1, done.stdout + done.stderr)  # and no file of a step is left
            return done.returncode, done.stdout, json.loads(written[0].read_text())

    def test_first_contact_and_speed_although_one_hangs_and_one_fails(self):
        status, printed, record = self.check("first", "--break", "first call by slots=hang;long calls, 4 ranks=fail")
        self.assertEqual((status, record["failed"]), (1, ["first call by slots", "long calls, 4 ranks"]), printed)
        for name in ("first call by get", "first call by slots, eager loading", "first call by slots, processes", "ceilings", "creation"):
            self.assertIn(name, record["passed"])
        self.assertEqual(list(record["hung"]), ["first call by slots"])
        self.assertIn("xid", record["hung"]["first call by slots"])
        self.assertIn("not done after 3 s", record["output"]["first call by slots"])
        rows = {row["what"]: row for row in record["measured"]}
        replay = rows["all-reduce, 4 ranks on one GPU, graph replay, 8 B"]
        self.assertAlmostEqual(replay["ratio"], replay["measured"] / replay["model"])
        self.assertEqual(replay["at_most"], 7)
        self.assertTrue(any("8 blocks" in what for what in rows), rows)

    def test_whether_all_is_right(self):
        status, printed, record = self.check("second")
        self.assertEqual((status, record["failed"]), (0, []), printed)
        self.assertIn("a million calls by get", record["passed"])
        self.assertTrue(any(text.startswith("memcheck: ") for text in record["left_out"]))

    def test_what_is_not_there_is_refused(self):
        command = [sys.executable, "-B", ROOT / "tools/gpu_check", "--fake", "--build", "/nowhere"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
