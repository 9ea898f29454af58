"""What nvcc made of units.cu: the loop that each kernel measures has the instructions that its name says, and no others that
take long.

    units_test.py UNITS_FATBIN

Exits with 77 without cuobjdump and nvdisasm (tests/gpu/binary/binary_test.py).
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "binary"))
from binary_test import CUOBJDUMP, by_function, output

LOAD, STORE = r"LDG?\.E\.64\.STRONG\.", r"STG?\.E\.64\.STRONG\.SYS"
STORES, FENCE = r"STG?\.E\.128", r"MEMBAR\.\w+\."
SLOW = (r"MEMBAR", r"CCTL", r"\bLDG?\.E|LDGMC", r"\bSTG?\.E", r"ATOM|\bREDG?\.")
ELSEWHERE = r"ATOMS|\b(?:LD|ST)\.E\.64 "  # an atomic's way for addresses of shared memory, and none of these is
# Of each kernel: patterns, of which each is there so often; of the kinds of SLOW no other instruction is.
WANTED = {"load": {LOAD + "SYS": 1},
          "acquire_sys": {LOAD + "SYS": 1, r"CCTL\.IVALL": 1},
          "acquire_gpu": {LOAD + "GPU": 1, r"CCTL\.IVALL": 1},
          "fence_sys": {FENCE + "SYS": 1, r"CCTL\.IVALL": 1},
          "fence_gpu": {FENCE + "GPU": 1, r"CCTL\.IVALL": 1},
          "stores": {STORES: 4},
          "stores_fence_sys": {STORES: 4, FENCE + "SYS": 1, r"CCTL\.IVALL": 1},
          "stores_fence_gpu": {STORES: 4, FENCE + "GPU": 1, r"CCTL\.IVALL": 1},
          "barrier": {r"BAR\.SYNC": 1},
          "store": {STORE: 1},
          "release_sys": {FENCE + "SYS": 1, STORE: 1},
          "red_sys": {r"REDG?\.E\.ADD\.64\.STRONG\.SYS": 1},
          "exchange_gpu": {r"ATOMG?\.E\.EXCH\.64\.STRONG\.GPU": 1},
          "fetch_add_sys": {FENCE + "SYS": 1, r"ATOMG?\.E\.ADD\.64\.STRONG\.SYS": 1, r"CCTL\.IVALL": 1}}


def loop(code):
    """The instructions of the longest loop: from where a branch goes back to, to that branch."""
    instructions = [(int(at, 16), text) for at, text in re.findall(r"/\*([0-9a-f]{4,})\*/\s+([^;]+?)\s*;", code)]
    loops = []
    for at, text in instructions:
        back = re.search(r"\bBRA\S* .*?(0x[0-9a-f]+)$", text)
        if back and int(back.group(1), 16) < at:
            loops.append([other for place, other in instructions if int(back.group(1), 16) <= place < at])
    return max(loops, key=len, default=[])


def wrong_with(name, code):
    body, wanted = loop(code), WANTED[name]
    found = {pattern: sum(bool(re.search(pattern, text)) for text in body) for pattern in wanted}
    texts = [f"{count} of {pattern}, where {wanted[pattern]} are due" for pattern, count in found.items() if count != wanted[pattern]]
    allowed = (*wanted, ELSEWHERE)
    others = [text for text in body for kind in SLOW if re.search(kind, text) and not any(re.search(p, text) for p in allowed)]
    return texts + [f"beside them: {text}" for text in others]


def main():
    wrong, seen = [], 0
    for architecture, listing in by_function(output(CUOBJDUMP, "-sass", sys.argv[1]), r"^\s*code for (sm_\d+)").items():
        functions = by_function(listing, r"^\s*Function : tutti_unit_(\w+)")
        for name in WANTED:
            seen += 1
            wrong += [f"{architecture}, tutti_unit_{name}: {text}" for text in wrong_with(name, functions.get(name, ""))]
    print("\n".join(wrong) or f"{seen} loops are as they should be")
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
