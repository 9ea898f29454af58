#!/usr/bin/env python3
"""Kernels with a mistake made on purpose are found by calls on the stand-in: twins of changed copies of the sources.

    mutants.py TUTTI ROOT TWINS_ENTRY COMPILER FLAGS...     exit status 0: the right twins pass, and each mistake is found

With -fsanitize=thread among FLAGS, mistakes that only a race shows are made too.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from races import passed

SEEDS = range(1, 5)
# name, file, what is changed, into what, method, collective; only with ThreadSanitizer
MUTANTS = [
    ("no barrier before a message is published", "src/exec/interpreter.hpp",
     "    group.sync();\n    if (group.leader() && op.outs.begin", "    if (group.leader() && op.outs.begin", "slots",
     "all_reduce", False),
    ("the flag of a slot of lines does not change", "src/link/ll.hpp",
     "return 1 + static_cast<uint32_t>(message / kSlots & (kPeriod - 1));", "return message != ~uint64_t{0};", "ll", "all_reduce", False),
    ("the writer of a slot does not wait for room", "src/link/ll.hpp", "    return out.next - out.acked < kSlots;\n  }\n\n  /// Must",
     "    return true;\n  }\n\n  /// Must", "ll", "broadcast", False),
    ("a line by LL128 is taken without its flag", "src/exec/cuda/ll_operands.hpp",
     "complete = complete && !(waits && parts[i].high != operands.flags[number]);", "(void)waits;", "ll128", "all_reduce", False),
    ("data by LL128 is what was there when the flag was looked for", "src/exec/cuda/ll_operands.hpp",
     "    load_parts(place, operands, j, end, parts);  // the flags have come", "    // the flags have come", "ll128", "all_reduce", False),
    ("a thread that polls overlooks its message", "src/exec/readiness.hpp",
     "if (found == Outcome::Waiting) from =", "if (found == Outcome::Waiting && i == 0) from =", "slots", "all_reduce", False),
    ("no barrier before a signal", "src/exec/cuda/multimem.cu",
     "    group_.sync();\n    if (!group_.leader()) return;\n    fence_aliases();", "    if (!group_.leader()) return;\n    fence_aliases();",
     "nvls", "all_reduce", False),
    ("a round is not awaited", "src/exec/cuda/multimem.cu", "    return !ptx::sync_block_or(!all);",
     "    return waits.step == call_.fold_step || !ptx::sync_block_or(!all);", "nvls", "all_reduce", False),
    ("the window of the next round takes the place of this one's", "src/exec/compile/multimem_steps.hpp",
     " + round % kMultimemSlots) * slot", ") * slot", "nvls", "all_reduce", False),
    ("the signals of a call are not counted", "src/exec/cuda/multimem.cu", "sent + uint64_t{2} * rounds);", "sent);", "nvls", "all_reduce", False),
    ("a descriptor is stored without a fence", "src/exec/cuda/block.hpp", "    ptx::store_ordered<ptx::Scope::System>(at, value);\n",
     "    ptx::store_relaxed<ptx::Scope::System>(at, value);\n", "slots", "all_reduce", True),
    ("a descriptor is loaded without acquire", "src/exec/cuda/block.hpp", "{ return ptx::load_acquire<ptx::Scope::System>(at); }",
     "{ return ptx::load_relaxed<ptx::Scope::System>(at); }", "slots", "all_reduce", True),
]


def compile_twins(folder, root, entry, compiler, flags, change=None):
    """Twins of the sources, with a change; of one element type under all names, which saves time."""
    sources = ["src/exec/cuda/lanes.cu", "src/exec/cuda/multimem.cu"]
    texts = {source: (root / source).read_text() for source in sources}
    if change is not None:
        name, file, old, new = change
        text = texts.get(file) or (root / file).read_text()
        assert text.count(old) == 1, f"{name}: {file} has changed: change this test too"
        texts[file] = text.replace(old, new)
    for run in ("run_lanes", "run_batch"):
        texts["src/exec/cuda/lanes.cu"] = texts["src/exec/cuda/lanes.cu"].replace(run + "<T,", run + "<Plain<float>,")
    for file, text in texts.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    twins = folder / "twins.so"
    includes = [f"-I{folder}/src", f"-I{root}", f"-I{root}/src", f"-I{root}/include"]
    subprocess.run([compiler, *flags, "-std=c++20", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off", *includes, "-x", "c++",
                    *(str(folder / source) for source in sources), entry, "-o", str(twins)], check=True)
    return twins


def complaint(tutti, twins, method, collective, seed):
    """What a run with these twins says; "" if all is right."""
    env = {**os.environ, "FAKE_CUDA_TWINS": str(twins), "FAKE_CUDA_SEED": str(seed), "TUTTI_METHOD": method, "TUTTI_TIMEOUT": "5",
           "TUTTI_BLOCK_THREADS": "32", "TUTTI_MAX_BLOCKS": "2"}
    sizes = ["-b", "4000", "-e", "84000", "-i", "80000", "-n", "40"]
    if method == "nvls":  # several rounds
        sizes = ["-b", "4000", "-e", "504000", "-i", "500000", "-n", "10"]
    command = [tutti, "perf", collective, "--device", "cuda", "-t", "3", *sizes, "-c", "12", "-w", "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    except subprocess.TimeoutExpired:
        return "it does not end"
    if passed(done, collective, str(twins)):
        return ""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "Sanitizer" in line or "tutti perf:" in line or "FAILED" in line]
    return (lines or [f"exit status {done.returncode}"])[0][:160]


def main():
    tutti, root, entry, compiler, *flags = sys.argv[1:]
    sanitized = any("thread" in flag for flag in flags)
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        twins = compile_twins(pathlib.Path(folder), pathlib.Path(root), entry, compiler, flags)
        for method in ("slots", "ll", "ll128", "nvls"):
            for collective in ("all_reduce", "broadcast"):
                wrong = complaint(tutti, twins, method, collective, 1)
                assert not wrong, f"the right twins: {wrong}"
    for name, file, old, new, method, collective, race in MUTANTS:
        if race and not sanitized:
            continue
        with tempfile.TemporaryDirectory() as folder:
            twins = compile_twins(pathlib.Path(folder), pathlib.Path(root), entry, compiler, flags, (name, file, old, new))
            said = next((text for text in (complaint(tutti, twins, method, collective, seed) for seed in SEEDS) if text), "")
        print(f"{name}: {said or 'NOT FOUND'}", flush=True)
        if not said:
            missed.append(name)
    sys.exit(f"not found: {missed}" if missed else 0)


if __name__ == "__main__":
    main()
