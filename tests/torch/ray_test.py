"""Ray Train starts its workers again after one was killed: the training goes on from Ray's checkpoint."""

import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

import torch
from elastic_test import HERE, STEPS, alive, end, environment, errors_of, expected, lines_of

PROGRAM = os.path.join(HERE, "ray_program.py")
WANTED = ("ray", "pyarrow", "pandas")  # the last two are of ray[train]
MISSING = [name for name in WANTED if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"there is no {', '.join(MISSING)} here: pip install 'ray[train]'")
class RayTrain(unittest.TestCase):
    def test_a_worker_is_killed(self):
        seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
        chosen = random.Random(seed)
        dead, step = chosen.randrange(2), chosen.randrange(1, STEPS)
        print(f"SEED={seed}: worker {dead} dies in step {step}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            env = environment(HOME=folder, RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")  # Ray keeps a key in HOME
            try:
                done = subprocess.run([sys.executable, PROGRAM, folder, str(STEPS), f"kill:{dead}:{step}"], env=env,
                                      capture_output=True, text=True, timeout=580, check=False)
                text = f"{done.stdout}{done.stderr}{errors_of(folder)}"
                self.assertEqual(done.returncode, 0, text)
                deadline = time.monotonic() + 30  # Ray's own processes end after the program
                while alive(env) and time.monotonic() < deadline:
                    time.sleep(0.1)
                self.assertEqual(alive(env), [], text)
            finally:
                end(env)
            first, again = lines_of(folder)
            self.assertEqual(first, "ranks 2 from step 0", text)
            # Ray may not yet have registered the last step's checkpoint when the worker dies.
            self.assertIn(again, [f"ranks 2 from step {kept}" for kept in range(step + 1)], text)
            self.assertEqual(torch.load(os.path.join(folder, "result")).tolist(), expected(2), text)
            [(survivor, error)] = errors_of(folder)
            print(again, error)
            self.assertEqual(survivor, 1 - dead)
            self.assertRegex(error, rf"^rank {survivor}: all_reduce\(.*: rank {dead} \(process \d+ on .*\) is gone")


if __name__ == "__main__":
    unittest.main()
