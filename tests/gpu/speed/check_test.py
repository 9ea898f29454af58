"""tools/gpu_check on the stand-in: all steps pass; and where one hangs, one fails and one waits for ever, the rest reports.

    check_test.py BUILD_FOLDER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = sys.argv.pop(1)


class GpuCheck(unittest.TestCase):
    def check(self, part, *words):
        """(exit status, what was printed, what was written, the same as a table)."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-B", ROOT / "tools/gpu_check", "--fake", "--build", BUILD, "--part", part, "--out", folder, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=590, check=False)
            written = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([file.suffix for file in written], [".json", ".txt"], done.stdout + done.stderr)  # and nothing of a step
            return done.returncode, done.stdout, json.loads(written[0].read_text()), written[1].read_text()

    def test_first_contact_and_speed_although_steps_hang_and_fail(self):
        broken = {"first call by slots": "hang", "long calls, 4 ranks": "fail", "first call by get": "stick"}
        status, printed, record, table = self.check("first", "--break", ";".join(f"{step}={how}" for step, how in broken.items()))
        self.assertEqual((status, sorted(record["failed"])), (1, sorted(broken)), printed)
        for name in ("first call by get, processes", "first call by slots, eager loading", "first call by slots, processes", "ceilings",
                     "creation"):
            self.assertIn(name, record["passed"])
        self.assertEqual(list(record["hung"]), ["first call by slots", "first call by get"])
        self.assertIn("xid", record["hung"]["first call by slots"])
        self.assertIn("not done after 3 s", record["output"]["first call by slots"])
        self.is_named(record["boards"]["first call by get"], printed, table)
        rows = {row["what"]: row for row in record["measured"]}
        replay = rows["all-reduce, 4 ranks on one GPU, graph replay, 8 B"]
        self.assertAlmostEqual(replay["ratio"], replay["measured"] / replay["model"])
        self.assertEqual(replay["at_most"], 7)
        self.assertTrue(any("8 blocks" in what for what in rows), rows)
        self.assertIn("no time and no ratio here means anything", table)
        self.are_facts(record, table)
        self.are_costs(record, rows)
        self.are_phases(record["phases"])

    def is_named(self, boards, printed, table):
        """The kernel of one rank does not begin, and the other rank's waits for it."""
        waits = [board for board in boards if "waits in call" in board]
        stuck = [board for board in boards if "no kernel of a call runs" in board]
        self.assertEqual((len(boards), len(waits), len(stuck)), (2, 1, 1), boards)
        rank = "rank 0" if "rank 0 on" in stuck[0] else "rank 1"
        self.assertRegex(waits[0], rf"waits in call 2 for {rank} \((message|credit)\) at replica \d+, lane \d+, step \d+, round \d+ of \d+")
        for text in (printed, table):
            self.assertIn(waits[0], text)

    def are_facts(self, record, table):
        """What is assumed of drivers is what the stand-in does."""
        verdicts = {row["what"]: row["verdict"] for row in record["driver_facts"]}
        missing = [what for what, verdict in verdicts.items() if verdict == "not measured"]
        self.assertEqual(missing, ["cuMemPoolCreate"])  # the stand-in has no pools but one
        self.assertEqual({verdict for what, verdict in verdicts.items() if what not in missing}, {"as assumed"}, record["driver_facts"])
        found = {row["what"]: row["found"] for row in record["driver_facts"]}
        self.assertEqual((found["cuMemAlloc"], found["cuStreamCreate"]), ("waits", "returns"))
        self.assertEqual(found["launches that fit a queue behind a running kernel"], 1023)
        self.assertIn("cuGraphInstantiate", table)

    def are_costs(self, record, rows):
        """Each unit cost of the model stands beside a measured one, or is left out with the reason."""
        charged = {row["constant"]: row for row in rows.values() if "constant" in row}
        self.assertEqual(set(charged), {"cuda_alpha", "cuda_block_local", "cuda_call", "cuda_copy_item", "cuda_fence", "cuda_fold_gamma"})
        for row in charged.values():
            self.assertAlmostEqual(row["ratio"], row["measured"] / row["model"])
        for name in ("cuda_beta", "cuda_block_peer", "cuda_ll128_round", "cuda_message", "cuda_proxy"):
            self.assertTrue(any(f"({name})" in text for text in record["left_out"]), record["left_out"])
        for what in ("fence.acq_rel.sys, idle", "load of pinned memory of the host", "multimem.ld_reduce of 16 B, one GPU"):
            self.assertGreater(rows[what]["measured"], 0)

    def are_phases(self, phases):
        calls = {row["call"] for row in phases}
        self.assertEqual(calls, {f"all-reduce, 4 ranks, {size} B" for size in (8, 256 << 10, 1 << 20)})
        for call in calls:
            of_call = {row["phase"]: row for row in phases if row["call"] == call}
            self.assertEqual(list(of_call), ["start", "enter", "wait", "move", "publish", "leave", "end"])
            self.assertGreater(of_call["end"]["most"], of_call["move"]["most"])
            self.assertGreater(of_call["wait"]["most"], 0)
            self.assertGreaterEqual(of_call["end"]["blocks"], 4)

    def test_whether_all_is_right(self):
        status, printed, record, _ = self.check("second")
        self.assertEqual((status, record["failed"]), (0, []), printed)
        self.assertIn("a million calls by get", record["passed"])
        self.assertTrue(any(text.startswith("memcheck: ") for text in record["left_out"]))

    def test_a_driver_that_differs_is_told(self):
        gpu = pathlib.Path(BUILD) / "tests/gpu"
        env = {**os.environ, "LD_LIBRARY_PATH": str(gpu / "fake/lib"), "FAKE_CUDA_RULES": "",
               "FAKE_CUDA_TWINS": str(gpu / "speed/libtutti_gpu_speed_twins.so")}
        found = {}
        for words in ((), ("queues",)):
            command = [sys.executable, "-B", ROOT / "tests/gpu/speed/driver_facts.py", gpu / "speed/probes.fatbin", *words]
            done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)  # nothing that the library relies on
            found.update((row["what"], (row["found"], row["verdict"])) for row in map(json.loads, done.stdout.splitlines()))
        self.assertEqual(found["cuMemAlloc"], ("returns", "DIFFERS"))
        self.assertEqual(found["launches that fit a queue behind a running kernel"], (4096, "DIFFERS"))
        self.assertEqual(found["cuMemFree"], ("waits", "as assumed"))  # by all drivers

    def test_what_is_not_there_is_refused(self):
        command = [sys.executable, "-B", ROOT / "tools/gpu_check", "--fake", "--build", "/nowhere"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
