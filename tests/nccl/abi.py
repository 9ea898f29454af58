#!/usr/bin/env python3
"""What nccl.h compiles into programs: the program of abi.c, built with our header and with another one, or by another compiler.

    abi.py OURS OTHER        exit status 0 if all that the other says is what ours says
"""
import subprocess
import sys

ours, real = (subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines() for program in sys.argv[1:])
version = real[0]
wrong = [line for line in real[1:] if line not in ours]
print("\n".join(f"the other nccl.h ({version}): {line}; ours differs" for line in wrong) or f"{len(real) - 1} values and offsets are those of the other nccl.h, {version}")
sys.exit(bool(wrong) or len(real) < 60)
