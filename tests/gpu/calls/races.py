"""What ThreadSanitizer says of the twins, without the one thing that it cannot know."""

import os
import re
import subprocess

RACE_STATUS = 66  # ThreadSanitizer's own exit status
# In place, what comes back to a rank was made of what it has sent from there: sums of its input, or its own block.
RETURNING = ("all_reduce", "all_gather", "reduce_scatter")


def is_overwriting(report, collective):
    """Is this the rule of src/exec/cuda/ll_operands.hpp? One lane writes what came in lines over what another lane of the rank
    has read to send it in lines, to fold it into what it sends so, or to put it into a message's slot (a message of several
    pieces, such as both blocks that a reduce-scatter of two sends up): the written value was made of the read one. In an
    all-gather also over what another lane has written as it came in lines: the same block, twice."""
    parts = re.split(r"^  (Write|Previous read|Read|Previous write) of size \d+ .*\n", report, flags=re.M)
    stacks = {kind: text.partition("\n\n")[0].splitlines()[:6] for kind, text in zip(parts[1::2], parts[2::2])}
    if "data race" not in parts[0] or "WordBytes::store" not in stacks.get("Write", [""])[0]:
        return False
    if set(stacks) == {"Write", "Previous read"}:
        return re.search("MessageWords|WordBytes::load|copy_block", "\n".join(stacks["Previous read"])) is not None
    return (collective == "all_gather" and set(stacks) == {"Write", "Previous write"}
            and "WordBytes::store" in stacks["Previous write"][0])


def named(report, twins):
    """The report with the functions of frames that it calls <null>: GCC's run-time library finds some of those inlined not."""
    def names(frame):
        lines = subprocess.run(["addr2line", "-Cfie", twins, frame[1]], capture_output=True, text=True).stdout.splitlines()
        return " < ".join(lines[::2]) or frame[0]
    return re.sub(rf"<null> \({re.escape(os.path.basename(twins))}\+(0x[0-9a-f]+)\)", names, report) if twins else report


def races(stderr, collective, twins):
    """The reports, one text each, but for overwritings. `twins`: the library that the kernels' twins are in."""
    reports = re.findall(r"^WARNING: ThreadSanitizer.*?^={18}$", stderr, flags=re.M | re.S)
    return [report for report in reports if not is_overwriting(named(report, twins), collective)]


def passed(done, collective, twins=os.environ.get("FAKE_CUDA_TWINS")):
    """Did `tutti perf` of this collective, with its output captured, end well?"""
    if done.returncode != RACE_STATUS or collective not in RETURNING or "tutti perf:" in done.stderr:
        return done.returncode == 0
    begun = len(re.findall(r"^WARNING: ThreadSanitizer", done.stderr, flags=re.M))
    ended = len(re.findall(r"^WARNING: ThreadSanitizer.*?^={18}$", done.stderr, flags=re.M | re.S))
    return begun == ended > 0 and not races(done.stderr, collective, twins) and "# Out of bounds values : 0 OK" in done.stdout
