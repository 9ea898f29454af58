"""What nvcc made of the kernels, read in the binary: binary_test.py FATBIN [NVCC SOURCE FLAGS...]

For each GPU that the fatbin holds code for, and each kernel whose messages travel in slots (tutti_lanes_*):
  - at most 64 registers, so two blocks of 512 threads fit a multiprocessor, and nothing is spilled;
  - no function is called: a call costs registers in the whole kernel;
  - folds, and copies of payload between memory and links, load and store 16 bytes at a time;
  - each flag that the source acquires or releases is loaded or stored at system scope, with the fence that this takes.

Kernels whose messages travel in lines (tutti_lines_*, tutti_short_*) have as few registers, and spill some: how many do
is printed. Those of short calls fence only where they report a fault.

With NVCC and the source, the checks are checked too: the same kernel with fewer registers must be refused.

Needs cuobjdump and nvdisasm: CUDA's, or those of PyPI (nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm). Exits with 77
without them.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST_REGISTERS = 64
# A function of the compiler; what jumps to a label is a loop that threads leave at different times.
FUNCTION = r"\bCALL\S* `\(\$"
FENCES_OF_REPORTS = 2  # a fault, and two calls at once
OPERATORS, OPERATORS_ON_BITS = 4, 3  # sum, product, minimum, maximum; and, or, exclusive or


def find(tool):
    found = os.environ.get(tool.upper()) or shutil.which(tool, path=os.environ["PATH"] + ":/usr/local/cuda/bin")
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else []:
        for candidate in pathlib.Path(folder).glob(f"*/bin/{tool}"):
            found = found or str(candidate)
    if not found:
        print(f"skipped: there is no {tool}; `pip install nvidia-cuda-{tool}` brings it")
        sys.exit(77)
    return found


CUOBJDUMP, NVDISASM = find("cuobjdump"), find("nvdisasm")
os.environ["PATH"] += ":" + os.path.dirname(NVDISASM)


def output(*command, **how):
    return subprocess.run(command, check=True, capture_output=True, text=True, **how).stdout


def by_function(listing, begins):
    """{name: its part of the listing}"""
    parts = re.split(begins, listing, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def accesses(ptx):
    """How often the source acquires and releases at system scope, by kernel."""
    kernels = by_function(ptx, r"^\.(?:visible|weak)? *\.entry (\w+)")
    return {name: {kind: len(re.findall(rf"\b{kind}\.sys\b", text)) for kind in ("ld.acquire", "st.release")}
            for name, text in kernels.items()}


def wrong_with(name, code, registers, source):
    """What is wrong with this kernel: a list of texts."""
    def count(pattern):
        return len(re.findall(pattern, code))

    few = (registers <= MOST_REGISTERS, f"{registers} registers")
    if name.startswith("tutti_lines_"):
        return [text for good, text in [few] if not good]
    if name.startswith("tutti_short_"):
        fences = count(r"\bMEMBAR\.\w+\.SYS")
        return [text for good, text in [few, (fences <= FENCES_OF_REPORTS, f"{fences} fences")] if not good]
    folds = OPERATORS + (OPERATORS_ON_BITS if re.search(r"_u\d+$", name) else 0)
    spilled = [line.strip() for line in code.splitlines() if "SpillRefill" in line]
    wants = [
        few,
        (not spilled, f"{len(spilled)} spills, as {spilled[:1]}"),
        (count(FUNCTION) == 0, f"{count(FUNCTION)} calls of functions"),
        # The first operand and the others of each fold; a copy. Each stores to a buffer, to a link, or to both.
        (count(r"\bLDG?\.E\S*\.128") >= 2 * folds + 1, f"{count(r'LDG?.E.128')} loads of 16 bytes, {folds} folds"),
        (count(r"\bSTG?\.E\S*\.128") >= 2 * folds + 2, f"{count(r'STG?.E.128')} stores of 16 bytes, {folds} folds"),
    ]
    if source:
        loads, stores = count(r"\bLDG?\.E\S*\.STRONG\.SYS"), count(r"\bSTG?\.E\S*\.STRONG\.SYS")
        fences, invalidates = count(r"\bMEMBAR\.\w+\.SYS"), count(r"\bCCTL\.IVALL")
        acquires, releases = source["ld.acquire"], source["st.release"]
        wants += [
            (acquires > 0 and releases > 0, "no flags"),
            (loads >= acquires, f"{loads} strong loads for {acquires} that acquire"),
            (stores >= releases, f"{stores} strong stores for {releases} that release"),
            (fences >= releases, f"{fences} fences of the system for {releases} stores that release"),
            (invalidates >= acquires, f"{acquires} loads acquire, {invalidates} let go of stale lines"),
        ]
    return [text for good, text in wants if not good]


def examine(cubin, ptx=None):
    """{kernel: what is wrong}, for all kernels of a cubin."""
    usage = output(CUOBJDUMP, "-res-usage", cubin)
    registers = {name: int(number) for name, number in re.findall(r"Function (\w+):\s+REG:(\d+)", usage)}
    kernels = by_function(output(NVDISASM, "-c", cubin), r"^\.text\.(\w+):")
    for kind in ("lanes", "lines", "short"):
        codes = [code for name, code in kernels.items() if name.startswith(f"tutti_{kind}_")]
        print(f"  tutti_{kind}_*: {len(codes)} kernels, {sum('SpillRefill' in code for code in codes)} spill")
    return {name: wrong_with(name, code, registers[name], (ptx or {}).get(name)) for name, code in kernels.items()}


def starved(folder, nvcc, source, flags):
    """A kernel of which three blocks are to fit: 40 registers."""
    text = pathlib.Path(source).read_text()
    text = re.sub(r"^TUTTI_LANES\((?!f32,).*\n", "", text, flags=re.M)
    changed = text.replace("kMaxThreads, 2)", "kMaxThreads, 3)")
    assert changed != text, "the kernels' bounds have changed: change them here too"
    (folder / "mutant.cu").write_text(changed)
    output(nvcc, *flags, "-arch=sm_90", "-cubin", str(folder / "mutant.cu"), "-o", str(folder / "mutant"))
    return str(folder / "mutant")


def main(fatbin, nvcc=None, source=None, *flags):
    with tempfile.TemporaryDirectory() as folder:
        output(CUOBJDUMP, "-xelf", "all", "-xptx", "all", os.path.abspath(fatbin), cwd=folder)
        cubins = sorted(pathlib.Path(folder).glob("*.cubin"))
        ptx = {}
        for text in pathlib.Path(folder).glob("*.ptx"):
            ptx.update(accesses(text.read_text()))
        failed = not cubins or not ptx
        for cubin in cubins:
            gpu = re.search(r"sm_\d+", cubin.name).group()
            found = examine(str(cubin), ptx)
            failed = failed or not found
            print(f"{gpu}: {len(found)} kernels, of them right: {sum(not wrong for wrong in found.values())}")
            for name, wrong in found.items():
                failed = failed or bool(wrong)
                for text in wrong:
                    print(f"  {name}: {text}")
        if nvcc:
            mutant = starved(pathlib.Path(folder), nvcc, source, flags)
            refused = all(any("spills" in text for text in wrong) for name, wrong in examine(mutant).items()
                          if name.startswith("tutti_lanes_"))
            print("a kernel that is short of registers is " + ("refused" if refused else "NOT refused"))
            failed = failed or not refused
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
