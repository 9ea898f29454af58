#!/usr/bin/env python3
"""libraries_test.py TUTTI: what the program loads at its start. Libraries of single commands are loaded by these commands:
their start takes time in every rank, and OpenBLAS's threads spin beside it."""

import subprocess
import sys

LOADED_ON_DEMAND = ("openblas", "simgrid", "cuda", "ucp", "ibverbs", "python")

loaded = subprocess.run(["ldd", sys.argv[1]], capture_output=True, text=True, check=True).stdout
assert "libc.so" in loaded, loaded
found = [name for name in LOADED_ON_DEMAND if name in loaded]
assert not found, f"{sys.argv[1]} loads {', '.join(found)} at its start:\n{loaded}"
