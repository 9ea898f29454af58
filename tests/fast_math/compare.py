"""compare.py PLAIN FAST: both programs must print the same sums, although the second flushes subnormals to zero."""

import os
import subprocess
import sys


def lines_of(program):
    done = subprocess.run([program], env={**os.environ, "TUTTI_REPRODUCIBLE": "1"}, capture_output=True, text=True,
                          timeout=120)
    if done.returncode != 0:
        sys.exit(f"{program} failed: {done.stdout}{done.stderr}")
    return done.stdout.splitlines()


plain, fast = lines_of(sys.argv[1]), lines_of(sys.argv[2])
if plain[-1] != "flushes: no":
    sys.exit("the plain program flushes subnormals: nothing is shown")
if os.uname().machine == "x86_64" and fast[-1] != "flushes: yes":
    sys.exit("the program linked with -ffast-math does not flush subnormals: nothing is shown")
if plain[:-1] != fast[:-1]:
    sys.exit("the bits differ:\n" + "\n".join(plain) + "\nwith -ffast-math:\n" + "\n".join(fast))
print("\n".join(plain[:-1]))
