"""Programs that tests need, and that apt may install."""

import os
import shutil
import subprocess
import unittest


def need(program, package):
    """The path of a program, installed by apt if it is missing. Skips the test if it cannot be had."""
    if found := shutil.which(program):
        return found
    why = "it can be installed by root only"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        done = subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", package], capture_output=True,
                              text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if found := shutil.which(program):
            return found
        why = f"apt-get install {package}: {done.stderr.strip().splitlines()[-1:]}"
    raise unittest.SkipTest(f"{program} is missing: {why}")
