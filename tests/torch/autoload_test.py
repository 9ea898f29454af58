"""torch finds the backend where the package is installed: no import is needed."""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = """
import torch, torch.distributed as dist
dist.init_process_group("tutti", init_method="file://" + __import__("sys").argv[1], rank=0, world_size=1)
value = torch.ones(2)
dist.all_reduce(value)
print(dist.get_backend(), value.tolist())
dist.destroy_process_group()
"""


def python(code, *args, **variables):
    return subprocess.run([sys.executable, "-c", code, *args], env={**os.environ, **variables}, text=True,
                          capture_output=True, timeout=120, check=False)


class Autoload(unittest.TestCase):
    def test_no_import_is_needed(self):
        with tempfile.TemporaryDirectory() as folder:
            done = python(PROGRAM, f"{folder}/store")
        self.assertEqual(done.stdout.strip(), "tutti [1.0, 1.0]", done.stderr)

    def test_import_torch_loads_no_library(self):
        done = python("import torch; print('libtutti' in open('/proc/self/maps').read())")
        self.assertEqual(done.stdout.strip(), "False", done.stderr)

    def test_it_can_be_turned_off(self):
        done = python("import torch, sys; print('tutti_torch' in sys.modules); import tutti_torch",
                      TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        self.assertEqual(done.stdout.strip(), "False", done.stderr)

    def test_dir_shows_what_is_public(self):
        done = python("import tutti_torch; print(*dir(tutti_torch)); print(tutti_torch.__version__)")
        names, version = done.stdout.splitlines()
        self.assertEqual(names.split(), ["__version__", "count_deliveries", "counters", "empty", "last_call",
                                         "mapped_memory", "window"], done.stderr)
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")

    def test_another_torch_is_named(self):
        done = python("import tutti_torch._built_for as b; b.TORCH = '1.0.0'\n"
                      "import tutti_torch; tutti_torch.empty(1)")
        self.assertIn("tutti_torch was built for torch 1.0.0, and this is torch", done.stderr)


if __name__ == "__main__":
    unittest.main()
