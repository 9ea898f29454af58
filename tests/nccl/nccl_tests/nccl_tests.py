#!/usr/bin/env python3
"""nccl-tests, built with Tutti's header and library as a user builds them, and run on the stand-in for CUDA's driver.

    TUTTI_NCCL_TESTS=FOLDER nccl_tests.py BUILD_FOLDER NVCC     FOLDER: the sources of github.com/NVIDIA/nccl-tests

  1. All programs compile and link (docs/nccl.md has the commands). With nccl.h as it is they ask for the device API:
     that is refused, with the reason.
  2. The programs run on the stand-in: their objects are linked with a runtime of our own (runtime.cpp), since NVIDIA's
     does not start there, and with twins of the kernels that make and check data, verifiable.cu compiled for the host
     (kernels.hpp). No element is wrong.

Exits with 77 without the sources.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"
WITHOUT_DEVICE_API = "-DTUTTI_NCCL_HEADER_VERSION=22707"
# (program, GPUs, what else it is given)
RUNS = [(program, 2, "-b 8 -e 64K -f 16") for program in
        "all_reduce all_gather broadcast reduce_scatter reduce alltoall alltoallv scatter gather sendrecv".split()]
RUNS += [("hypercube", 4, "-b 32 -e 32K -f 32"),
         ("all_reduce", 2, "-b 1K -e 64K -f 64 -R 1"),  # ncclCommRegister
         ("all_reduce", 2, "-b 1K -e 64K -f 64 -R 2"),  # ncclCommWindowRegister
         ("all_gather", 4, "-b 1K -e 64K -f 64 -R 2"),
         ("all_reduce", 2, "-b 1K -e 1K -G 3"),         # graphs
         ("all_reduce", 2, "-b 1K -e 1K -d all -o all"),
         ("reduce_scatter", 3, "-b 3K -e 3K -d all -o all")]


def fail(text):
    sys.exit(f"failed: {text}")


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **how)
    return done.returncode, done.stdout + done.stderr


def expect(*command, **how):
    status, text = run(*command, **how)
    if status != 0:
        fail(f"{' '.join(map(str, command))}\n{text[-3000:]}")
    return text


def build(sources, out, library, nvcc):
    """As docs/nccl.md says; for one kind of GPU, which takes the least time."""
    home = pathlib.Path(nvcc).resolve().parents[1]
    libraries = home / ("lib64" if (home / "lib64").exists() else "lib")
    flags = f"-I{INCLUDE} -L{library}"
    make = ["make", "-C", sources, "-j2", f"CUDA_HOME={home}", f"CUDA_LIB={libraries}", f"NVCC={nvcc}", "NVCC_GENCODE=-arch=sm_90"]
    status, text = run(*make, f"BUILDDIR={out}/refused", env={**os.environ, "NVCC_PREPEND_FLAGS": flags})
    if status == 0 or "Tutti has no device API" not in text:
        fail(f"a program that calls the device API was not refused: {text[-1000:]}")
    flags += f" {WITHOUT_DEVICE_API} -Xlinker -t"  # the linker lists its files
    linked = expect(*make, f"BUILDDIR={out}", env={**os.environ, "NVCC_PREPEND_FLAGS": flags})
    others = set(re.findall(r"(?m)^\S*libnccl\.so\S*", linked)) - {f"{library}/libnccl.so"}
    if f"{library}/libnccl.so" not in linked or others:
        fail(f"programs were linked with another libnccl: {others}")
    programs = sorted(path.name for path in out.glob("*_perf"))
    wanted = {f"{program}_perf" for program, *_ in RUNS}
    if not wanted <= set(programs):
        fail(f"not built: {wanted - set(programs)}")
    print(f"{len(programs)} programs compile and link; the device API is refused")


def twins(sources, out, cxx, include):
    """verifiable.cu for the host: a kernel's address becomes its twin's, and its one instruction in PTX an atomic addition."""
    text = (sources / "verifiable" / "verifiable.cu").read_text()
    for pattern, instead in ((r"\(void const\*\)&(\w+<[^;]*>);", r"nccl_tests::twin<&\1>();"),
                             (r'asm volatile\("red\.global\.add\.u64.*', "__atomic_fetch_add(bad_elt_n, bad, __ATOMIC_RELAXED);"),
                             (r"sweep<<<1,512>>>\(\);", "sweep();")):
        text, changed = re.subn(pattern, instead, text)
        if not changed:
            fail(f"verifiable.cu has changed: nothing matches {pattern}")
    (out / "twins.cpp").write_text(text)
    expect(cxx, "-std=c++20", "-O1", "-w", "-DNCCL_OS_LINUX", "-DNCCL_TESTS_KERNELS", WITHOUT_DEVICE_API, "-include", HERE / "kernels.hpp",
           f"-I{INCLUDE}", "-isystem", include, *(f"-I{sources / folder}" for folder in ("verifiable", "src", "os")),
           "-c", out / "twins.cpp", "-o", out / "twins.o")


def link_for_the_stand_in(sources, out, tree, nvcc, cxx):
    include = pathlib.Path(nvcc).resolve().parents[1] / "include"
    fake = tree / "tests" / "gpu" / "fake" / "lib"
    symbols = expect("nm", "-D", out / "all_reduce_perf")
    soname = re.search(r"libcudart\.so\.\d+", symbols).group()
    (out / "runtime.map").write_text(f'{soname} {{ global: cuda*; __cuda*; extern "C++" {{ nccl_tests::*; }}; local: *; }};\n')
    expect(cxx, "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-isystem", include, HERE / "runtime.cpp",
           "-o", out / soname, f"-Wl,-soname,{soname}", f"-Wl,--version-script={out / 'runtime.map'}", fake / "libcuda.so.1")
    twins(sources, out, cxx, include)
    for program in {program for program, *_ in RUNS}:
        expect(cxx, *(out / f"{name}.o" for name in (program, "common", "util", "timer", "twins")), out / "os" / "libnccl_test_os.a",
               f"-L{tree / 'nccl'}", "-lnccl", out / soname, f"-Wl,-rpath-link,{fake}:{tree}", "-lpthread", "-ldl", "-o", out / f"{program}_here")


def check(text):
    """How many lines its table has; exits if an element is wrong."""
    lines = [line.split() for line in text.splitlines() if re.match(r" +\d+ +\d+ +\w+ ", line)]
    # Each ends with time, algbw, busbw and #wrong, out of place and in place.
    wrong = [line for line in lines if line[-5] != "0" or line[-1] not in ("0", "N/A")]
    if not lines or wrong or "# Out of bounds values : 0 OK" not in text:
        fail(text[-3000:])
    return len(lines)


def run_all(out, tree):
    environment = {**os.environ, "FAKE_CUDA_OPEN_TO_HOST": "1", "FAKE_CUDA_MEMORY": str(8 << 30), "FAKE_CUDA_RULES": "queue",
                   "FAKE_CUDA_TWINS": tree / "tests" / "gpu" / "calls" / "libtutti_gpu_twins.so", "TUTTI_BLOCK_THREADS": "32",
                   "TUTTI_TIMEOUT": "60", "TUTTI_CALIBRATION": "0", "TUTTI_MODULE_PATH": tree / "transports" / "cuda",
                   "LD_LIBRARY_PATH": f"{out}:{tree / 'tests' / 'gpu' / 'fake' / 'lib'}:{tree / 'nccl'}:{tree}"}
    for program, gpus, words in RUNS:
        # One thread with several GPUs makes the steps of hypercube one group, whose calls have no order.
        for ranks in [f"-t {gpus} -g 1"] + [f"-g {gpus}"] * (program != "hypercube"):
            command = [out / f"{program}_here", *ranks.split(), *words.split(), "-c", "1", "-n", "2", "-w", "1"]
            text = expect(*command, env={**environment, "FAKE_CUDA_DEVICES": str(gpus)}, timeout=600)
            print(f"{program}_perf {ranks} {words}: {check(text)} lines, no element is wrong", flush=True)


def main():
    tree, nvcc = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    given = os.environ.get("TUTTI_NCCL_TESTS")
    if not given:
        print("skipped: TUTTI_NCCL_TESTS names no folder with the sources of nccl-tests (github.com/NVIDIA/nccl-tests)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        sources, out = pathlib.Path(folder) / "sources", pathlib.Path(folder) / "out"
        shutil.copytree(given, sources, ignore=shutil.ignore_patterns("build", ".git"))
        out.mkdir()
        build(sources, out, tree / "nccl", nvcc)
        link_for_the_stand_in(sources, out, tree, nvcc, os.environ.get("CXX", "c++"))
        run_all(out, tree)


if __name__ == "__main__":
    main()
