#!/usr/bin/env python3
"""How messages of calls on device memory travel: wire_used.py WIRE TUTTI perf FLAGS...

WIRE: ll, ll128 or pushed, as `delivery` of each row of --json must say; exit status 0 if it does, and the results are right.
"""

import json
import subprocess
import sys
import tempfile


def main():
    expected, *command = sys.argv[1:]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([*command, "--json", file.name], check=True, timeout=120)
        rows = json.load(file)["results"]
    used = {row["size"]: row["out_of_place"]["delivery"] for row in rows}
    print(used)
    sys.exit(f"{expected} was expected" if not used or any(wire != expected for wire in used.values()) else 0)


if __name__ == "__main__":
    main()
