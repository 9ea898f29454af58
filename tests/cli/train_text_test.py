"""tutti train -n 2: learns the default text to less than 3 bits a byte in less than two minutes of both processors."""

import re
import resource
import subprocess
import unittest

import support
from support import main


class TrainText(unittest.TestCase):
    def test_defaults_learn_the_default_text(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([support.TUTTI, "train", "-n", "2"], capture_output=True, text=True, timeout=280)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(done.returncode, 0, done.stderr)
        bits = re.search(r"# bits per byte: [\d.]+ in the first step, ([\d.]+) over the last 20", done.stdout)
        self.assertLess(float(bits[1]), 3, done.stdout)
        # Time on the wall depends on who else uses the machine.
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2 * 120)


if __name__ == "__main__":
    main()
