"""What nvcc made of the kernels, read in the binary: binary_test.py FATBIN... [-- NVCC SOURCE FLAGS...]

For each GPU that the fatbin holds code for, and each kernel:
  - at most 64 registers, so two blocks of 512 threads fit a multiprocessor, and no fold of floats of 2 bytes and more
    spills anything; with others little, and little in kernels, around a call of a fold, and in folds of lines;
  - no function is called but those that fold and copy: a call costs registers in the whole kernel;
  - folds, and copies of payload between memory and links, load and store 16 bytes at a time; so are lines;
  - those functions load 4 times before they use what comes first, so a thread has so many loads in flight.

Kernels that run lanes, with messages in slots (tutti_lanes_*) or also in lines (tutti_ll_*): each flag that the source
acquires or releases is loaded or stored at system scope, with the fence that this takes, and there is no other fence of
the system but those that order what instructions publish, at three places: before a lane waits, before an instruction's
moves, after them. Those of short calls, all in lines (tutti_short_*), have no fence. Those of several calls (tutti_batch_*)
are like those of one.

Kernels that all-reduce through a switch (tutti_multimem_*), on GPUs that have such, fold and multicast by multimem
instructions alone, and order these with others by fence.proxy.alias. The one that makes an atomic step on a window makes it
at system scope, behind a fence.

By NVIDIA's formulas (cuda_occupancy.h), two blocks of 512 threads of each kernel fit a multiprocessor of these GPUs.

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
# A function of the compiler; what jumps to a label is a loop that threads leave at different times. To wait for some
# threads of a warp, to ask them and to tell them are functions of a few instructions on GPUs before 9.0.
FUNCTION = r"\bCALL\S* `\(\$(?!\S*(?:_warpsync|_votesync_ballot|_shflsync_idx|10fold_block|10copy_block|8ll_apart))"
IN_FLIGHT = 4
# Instructions that keep values in memory: in a kernel, around calls of folds; in a fold; in a fold of lines, which keeps
# what does not change there.
SPILLS = ((r"tutti_ll_(?:[ui]8|f8e\dm\d)$", 96, 64, 128), (r"tutti_ll_[ui]\d+$", 96, 8, 96), ("tutti_ll_", 96, 2, 120),
          (r"_(?:[ui]8|f8e\dm\d)$", 64, 64, 128), (r"_[ui]\d+$", 48, 8, 96), ("tutti_short_", 40, 0, 0), ("", 8, 0, 0))


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
    # A function may follow.
    kernels = {name: re.split(r"^(?:\.\w+ +)?\.func\b", text, maxsplit=1, flags=re.M)[0] for name, text in kernels.items()}
    return {name: {**{kind: len(re.findall(rf"\b{kind}\.sys\b", text)) for kind in ("ld.acquire", "st.release", "fence.acq_rel")},
                   **{kind: text.count(kind) for kind in ("multimem.ld_reduce", "multimem.st", "fence.proxy.alias")}}
            for name, text in kernels.items()}


def loads_in_flight(code):
    """Of each group of 16-byte loads: how many are begun before the result of one is used."""
    groups, waiting = [], []
    for line in code.splitlines():
        text = re.sub(r"/\*.*?\*/", "", line).strip()
        instruction = re.match(r"(?:@!?\w+ )?([A-Z]\S*)\s+(.*?)\s*;", text)
        if not instruction:
            continue
        name, operands = instruction.groups()
        first, _, others = operands.partition(",")
        used = {int(r) for r in re.findall(r"\bR(\d+)", operands if name.startswith("ST") else others)}
        if any(used & set(range(r, r + 4)) for r in waiting):
            groups.append(len(waiting))
            waiting = []
        if re.match(r"LDG?\.E\S*\.128", name):
            waiting.append(int(first.strip().lstrip("R")))
    return groups


def spills_of(name):
    """How many a kernel may have, and a fold in it."""
    return next(most for kind, *most in SPILLS if re.search(kind, name))


def wrong_with_function(name, function, code):
    """The same of a function that folds or copies, which this kernel calls. A copy of lines loads one at a time."""
    groups = loads_in_flight(code)
    in_lines = "ll_apart" in function
    spilled = code.count("SpillRefill")
    most = spills_of(name)[2 if in_lines else 1]
    wants = [(sum(count >= IN_FLIGHT for count in groups) >= (2 if "fold_block" in function else 1), f"loads in flight: {groups}"),
             (in_lines or all(count >= IN_FLIGHT for count in groups), f"loads in flight: {groups}"),
             (spilled <= most, f"{spilled} spills, {most} at most")]
    return [f"{function}: {text}" for good, text in wants if not good]


def wrong_with(name, code, registers, source):
    """What is wrong with this kernel: a list of texts."""
    def count(pattern):
        return len(re.findall(pattern, code))

    functions = by_function(code, r"^(\$tutti_\w+\$_Z\w+):")
    spilled = [line.strip() for line in re.split(r"^\$tutti_\w+\$_Z\w+:", code, flags=re.M)[0].splitlines() if "SpillRefill" in line]
    loaded, stored = count(r"\bLDG?\.E\S*\.128"), count(r"\bSTG?\.E\S*\.128")
    fences = count(r"\bMEMBAR\.\w+\.SYS")
    wants = [(registers <= MOST_REGISTERS, f"{registers} registers"),
             (len(spilled) <= spills_of(name)[0], f"{len(spilled)} spills, as {spilled[:1]}"),
             (count(FUNCTION) == 0, f"{count(FUNCTION)} calls of functions")]
    if name.startswith("tutti_multimem_"):
        used = source or {}
        wants += [(used.get("multimem.ld_reduce", 0) > 0 and used.get("multimem.st", 0) > 1, f"multimem instructions: {used}"),
                  (used.get("fence.proxy.alias", 0) >= 4 and used.get("ld.acquire", 0) > 0, f"flags and fences: {used}")]
        return [text for good, text in wants if not good]

    if name.startswith("tutti_window_"):
        steps = count(r"\bATOM\S*\.SYS")
        wants += [(steps >= 2, f"{steps} atomic steps at system scope, not 2"), (fences >= 2, f"{fences} fences of the system, not one before each")]
        return [text for good, text in wants if not good]

    for function, part in functions.items():
        if re.search("fold_block|copy_block|ll_apart", function):
            wants += [(False, text) for text in wrong_with_function(name, function, part)]

    def called(what):
        return sum(what in function for function in functions)

    short = name.startswith("tutti_short_")
    apart = {"fold_block": 0 if short else 1, "ll_apart": 2 if name.startswith("tutti_ll_") else 0}
    wants += [(called(what) == number, f"{called(what)} functions {what}, not {number}") for what, number in apart.items()]
    # Of slots: folds of two operands and of any, and copies, each with 4 loads, and stores to a buffer and to a link. Of
    # lines: a fold of each form and a copy; the lines that are sent.
    in_slots = (0, 0) if short else (12, 6)
    in_lines = (0, 0) if name.startswith("tutti_lanes_") else (5, 1) if short else (10, 2)
    wants += [(loaded >= in_slots[0] + in_lines[0], f"{loaded} loads of 16 bytes"),
              (stored >= in_slots[1] + in_lines[1], f"{stored} stores of 16 bytes")]
    if short:
        wants.append((count(r"\bMEMBAR") == 0, f"{count(r'MEMBAR')} fences"))
    elif source:
        loads, stores = count(r"\bLDG?\.E\S*\.STRONG\.SYS"), count(r"\bSTG?\.E\S*\.STRONG\.SYS")
        invalidates = count(r"\bCCTL\.IVALL")
        acquires, releases = source["ld.acquire"], source["st.release"]
        wants += [
            (acquires > 0 and releases > 0, "no flags"),
            (loads >= acquires, f"{loads} strong loads for {acquires} that acquire"),
            (stores >= releases, f"{stores} strong stores for {releases} that release"),
            (source["fence.acq_rel"] == 3, f"{source['fence.acq_rel']} fences, not 3: before a wait, before an instruction's moves, after"),
            (fences == releases + source["fence.acq_rel"],
             f"{fences} fences of the system for {releases} stores that release and {source['fence.acq_rel']} fences"),
            (invalidates >= acquires, f"{acquires} loads acquire, {invalidates} let go of stale lines"),
        ]
    return [text for good, text in wants if not good]


def examine(cubin, ptx=None):
    """{kernel: what is wrong}, for all kernels of a cubin."""
    usage = output(CUOBJDUMP, "-res-usage", cubin)
    registers = {name: int(number) for name, number in re.findall(r"Function (\w+):\s+REG:(\d+)", usage)}
    kernels = by_function(output(NVDISASM, "-c", cubin), r"^\.text\.(\w+):")
    for kind in ("lanes", "ll", "short", "batch", "multimem", "window"):
        codes = [code for name, code in kernels.items() if name.startswith(f"tutti_{kind}_")]
        if not codes:
            continue
        print(f"  tutti_{kind}_*: {len(codes)} kernels")
    # By the names of those that run one call.
    return {name: wrong_with(name.replace("tutti_batch_", "tutti_"), code, registers[name], (ptx or {}).get(name)) for name, code in kernels.items()}


OCCUPANCY = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_occupancy.h>
// SM REGISTERS SHARED: the blocks of 512 threads that a multiprocessor runs, each with as much more shared memory as gpu::kSharedBytes.
int main(int, char** argument) {
  cudaOccDeviceProp gpu{};
  // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
  const int sm = std::atoi(argument[1]);
  gpu.computeMajor = sm / 10;
  gpu.maxThreadsPerBlock = 1024;
  gpu.maxThreadsPerMultiprocessor = sm >= 120 ? 1536 : 2048;
  gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536;
  gpu.warpSize = 32;
  gpu.sharedMemPerBlock = 48 << 10;
  gpu.sharedMemPerMultiprocessor = (sm >= 120 ? 100 : sm >= 90 ? 228 : 164) << 10;
  gpu.sharedMemPerBlockOptin = gpu.sharedMemPerMultiprocessor - 1024;
  gpu.reservedSharedMemPerBlock = 1024;
  gpu.numSms = 100;  // a block's place on one of them does not depend on their number
  cudaOccFuncAttributes kernel{};
  kernel.maxThreadsPerBlock = 512;
  kernel.numRegs = std::atoi(argument[2]);
  kernel.sharedSizeBytes = std::atoi(argument[3]);
  kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
  kernel.maxDynamicSharedSizeBytes = gpu.sharedMemPerBlock;
  cudaOccDeviceState state{};
  cudaOccResult result{};
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, 512, 32 << 10) != CUDA_OCC_SUCCESS) return 1;
  std::printf("%d\n", result.activeBlocksPerMultiprocessor);
}
"""


def fewest_resident(folder, nvcc, gpu, usages):
    """The least of what fits a multiprocessor, of kernels with so many (registers, bytes of shared memory)."""
    program = folder / "occupancy"
    if not program.exists():
        (folder / "occupancy.cpp").write_text(OCCUPANCY)
        include = pathlib.Path(nvcc).resolve().parent.parent / "include"
        output(os.environ.get("CXX", "c++"), "-std=c++17", f"-I{include}", str(folder / "occupancy.cpp"), "-o", str(program))
    return min(int(output(str(program), gpu[3:], *map(str, usage))) for usage in set(usages))


def starved(folder, nvcc, source, flags):
    """A kernel of which three blocks are to fit: 40 registers."""
    text = pathlib.Path(source).read_text()
    text = text.replace("TUTTI_TYPES(TUTTI_LANES)", "TUTTI_LANES(F32, f32, 4, Float, Float32, Plain<float>, 0)")
    changed = text.replace("kMaxThreads, 2)", "kMaxThreads, 3)")
    assert changed != text, "the kernels' bounds have changed: change them here too"
    (folder / "mutant.cu").write_text(changed)
    output(nvcc, *flags, "-arch=sm_90", "-cubin", str(folder / "mutant.cu"), "-o", str(folder / "mutant"))
    return str(folder / "mutant")


def examine_fatbin(fatbin, nvcc, folder):
    """Are all kernels right?"""
    output(CUOBJDUMP, "-xelf", "all", "-xptx", "all", os.path.abspath(fatbin), cwd=folder)
    cubins = sorted(folder.glob("*.cubin"))
    ptx = {}
    for text in folder.glob("*.ptx"):
        ptx.update(accesses(text.read_text()))
    right = bool(cubins) and bool(ptx)
    for cubin in cubins:
        gpu = re.search(r"sm_\d+", cubin.name).group()
        found = examine(str(cubin), ptx)
        right = right and bool(found) and not any(found.values())
        print(f"{gpu}: {len(found)} kernels, of them right: {sum(not wrong for wrong in found.values())}")
        if nvcc:
            usage = re.findall(r"Function \w+:\s+REG:(\d+).*?SHARED:(\d+)", output(CUOBJDUMP, "-res-usage", str(cubin)))
            fit = fewest_resident(folder, nvcc, gpu, usage)
            print(f"  of each, {fit} blocks of 512 threads or more fit a multiprocessor")
            right = right and fit >= 2
        for name, wrong in found.items():
            for text in wrong:
                print(f"  {name}: {text}")
    return right


def main(*arguments):
    separator = arguments.index("--") if "--" in arguments else len(arguments)
    fatbins, (nvcc, source, *flags) = arguments[:separator], arguments[separator + 1:] or (None, None)
    right = bool(fatbins)
    for fatbin in fatbins:
        with tempfile.TemporaryDirectory() as folder:
            right = examine_fatbin(fatbin, nvcc, pathlib.Path(folder)) and right
    if nvcc:
        with tempfile.TemporaryDirectory() as folder:
            mutant = starved(pathlib.Path(folder), nvcc, source, flags)
            refused = all(any("spills" in text for text in wrong) for name, wrong in examine(mutant).items()
                          if name.startswith(("tutti_lanes_", "tutti_ll_")))
        print("a kernel that is short of registers is " + ("refused" if refused else "NOT refused"))
        right = right and refused
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
