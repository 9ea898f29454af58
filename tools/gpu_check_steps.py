"""The steps of tools/gpu_check, in the order in which one would want to know: what the driver is; one call of each kind; what
memory gives; how fast calls are, and with what settings; then whether all is right, and other people's programs."""
import pathlib
import re
import shutil
import sys

from gpu_check_facts import driver_facts, memory_speed, phases, unit_costs
from gpu_check_run import ROOT, shell

METHODS = ("ll", "ll128", "slots", "get")
IDENTITY = re.compile(r"Serial|UUID|PDI|GUID|Part Number")  # of one board: of no use in a table of results
# Tests of GPUs that reach each other need two; those of faults and counts need a stand-in. A real driver may crash at a stream
# that was destroyed.
CALLS_FILTER = ("-*OtherDevice*:*AnotherDevice*:Batches*:DeviceFaults*:LaunchPath*:DriverRules*:Fences*:Uploads*:OddUsesOfAContext*:"
                "*DestroyedStream:*StreamWasDestroyed")


# ---- the first part: first contact, then speed


def look(check):
    """Ends the program if the module cannot be used: nothing else would say more."""
    output = check.run("tutti info", check.tutti, "info", seconds=30)
    line = re.search(r"^ *cuda +(?:not )?usable:.*", output or "", re.M)  # not what the build says of that part
    if not line or "not usable" in line.group():
        sys.exit(f"tools/gpu_check: the module is not usable: {line.group().strip() if line else 'tutti info does not name it'}")
    check.record["module"] = line.group().strip()
    check.record["device"], check.record["driver"] = "the stand-in", "none"
    if not check.fake:
        query = shell("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").stdout.splitlines()
        check.record["device"], check.record["driver"] = [part.strip() for part in query[0].split(",")]
        lines = shell("nvidia-smi", "-q").stdout.splitlines()
        check.record["nvidia-smi"] = "\n".join(line for line in lines if not IDENTITY.search(line))[:12000]
    check.write()


def first_calls(check):
    """One message of each kind between two ranks. What hangs is tried with code that is loaded at once, then by processes."""
    one = ("-n", 2, "-w", 1, "-c", 1)
    for method in METHODS:
        name, sizes, env = f"first call by {method}", ("-b", 8, "-e", 8), {"TUTTI_METHOD": method}
        check.perf(name, "-t", 2, *sizes, *one, env=env, seconds=25)
        if not check.hung:
            continue
        check.perf(f"{name}, eager loading", "-t", 2, *sizes, *one, env={**env, "CUDA_MODULE_LOADING": "EAGER"}, seconds=25)
        check.perf(f"{name}, processes", "--np", 2, *sizes, *one, env=env, seconds=25)
    check.perf("1 MiB, threads", "-t", 2, "-b", "1M", "-e", "1M", *one, seconds=25)
    check.perf("8 B and 1 MiB, processes", "--np", 2, "-b", 8, "-e", "1M", "-f", 131072, *one, seconds=25)
    for name, ranks in (("threads", ("-t", 2)), ("processes", ("--np", 2))):
        check.perf(f"registered buffers, {name}", *ranks, "-b", "1M", "-e", "1M", "-R", 1, *one, env={"TUTTI_METHOD": "get"}, seconds=25)
    with_mps(check, one)


def with_mps(check, one):
    """Processes that share a GPU run at the same time only under NVIDIA's multi-process service."""
    control = shutil.which("nvidia-cuda-mps-control")
    if check.fake or not control:
        return check.leave_out("MPS: " + ("the stand-in has none" if check.fake else "there is no nvidia-cuda-mps-control here"))
    folder = check.out.parent / "mps"
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    folder.mkdir(parents=True, exist_ok=True)
    if check.run("MPS starts", control, "-d", seconds=20, env=env) is None:
        return None
    for size in (8, "1M"):
        check.perf(f"{size} B, processes under MPS", "--np", 2, "-b", size, "-e", size, *one, env=env, seconds=25)
    check.run("MPS ends", "bash", "-c", f"echo quit | {control}", seconds=20, env=env)
    return shutil.rmtree(folder, ignore_errors=True)


def speed(check):
    most = "1M" if check.fake else "256M"
    few = 1 if check.fake else 20
    graph = check.perf("graph replay, 4 ranks", "-t", 4, "-b", 8, "-e", "256K", "-f", 32768, "-n", 10, "-w", 1,
                       "-G", 5 if check.fake else 200)
    for size, (microseconds, model) in graph.items():
        check.measure(f"all-reduce, 4 ranks on one GPU, graph replay, {size} B", microseconds, "us", model)
    long = check.perf("long calls, 4 ranks", "-t", 4, "-b", most, "-e", most, "-n", few, "-w", 1)
    for size, (microseconds, model) in long.items():
        check.measure(f"all-reduce, 4 ranks on one GPU, {size >> 20} MiB", microseconds, "us", model)
        if check.copy:  # each rank reads and writes its part: 8 times the size
            check.measure("all-reduce, 4 ranks, time over that of its bytes at the copy's bandwidth",
                          microseconds * 1e-6 / (8 * size / check.copy), "")
    for name, flags in (("calls, 2 ranks", ("-t", 2)), ("processes, 2 ranks", ("--np", 2))):
        for size, (microseconds, model) in check.perf(name, *flags, "-b", 8, "-e", "1M", "-f", 131072, "-n", 5, "-w", 1).items():
            check.measure(f"all-reduce, {name}, {size} B", microseconds, "us", model)
    for method in ("copy_engine", "slots", "get"):  # from which length on are the copy engines faster?
        rows = check.perf(f"all-gather, {method}", "-t", 2, "-b", "1M", "-e", most, "-f", 4, "-n", few, "-w", 1, collective="all_gather",
                          env={"TUTTI_METHOD": method})
        for size, (microseconds, model) in rows.items():
            check.measure(f"all-gather, 2 ranks, {method}, {size >> 20} MiB", microseconds, "us", model)
    output = check.run("creation", check.folder / "tests/gpu/calls/tutti_gpu_calls_tests",
                       "--gtest_filter=DeviceMemoryUse.CreationOfFourRanks", seconds=30)
    seconds = re.search(r"creation of 4 ranks: ([0-9.]+) s", output or "")
    if seconds:
        check.measure("creation of 4 ranks, s", float(seconds.group(1)), "s")


def sweeps(check):
    """Which number of blocks, and which method, at which size: what the model's unit costs are to be set by."""
    sizes = ("-b", "64K", "-e", "1M" if check.fake else "256M", "-f", 16)
    for method in METHODS[2:]:
        for blocks in (1, 8) if check.fake else (1, 2, 4, 8, 16, 24, 32):
            rows = check.perf(f"{method}, {blocks} blocks", "-t", 2, *sizes, "-n", 1 if check.fake else 10, "-w", 1, "-c", 0,
                              "-R", int(method == "get"), env={"TUTTI_METHOD": method, "TUTTI_MAX_BLOCKS": str(blocks)}, seconds=30)
            for size, (microseconds, model) in rows.items():
                check.measure(f"all-reduce, 2 ranks, {method}, {blocks} blocks, {size >> 10} KiB", microseconds, "us", model)


# ---- the second part: is it right?


def tests(check):
    threads = "32" if check.fake else "512"
    calls = check.folder / "tests/gpu/calls/tutti_gpu_calls_tests"
    check.run("calls", calls, f"--gtest_filter={CALLS_FILTER}:DeviceGroups*", seconds=60)
    check.run("buffers of several handles, of pools; green contexts", calls,
              "--gtest_filter=DriverRules.ABufferOf*:DriverRules.AStreamOf*:DriverRules.ALongTransfer*", seconds=30)
    for test in ("AllGatherV", "ReduceScatterV", "SendsAndReceivesToAllAndToItself", "StreamsOfOneCommunicatorAreOrdered"):
        check.run(f"groups {test}", calls, f"--gtest_filter=DeviceGroups.{test}", seconds=30)
    for test in ("AllGather", "AllToAll"):
        check.run(f"copy engines {test}", check.folder / "tests/gpu/calls/tutti_gpu_copies_tests", f"--gtest_filter=*{test}", seconds=30,
                  env={"TUTTI_METHOD": "copy_engine"})
    conformance = (sys.executable, "-B", ROOT / "tests/gpu/calls/conformance.py", check.tutti)
    check.run("types", *conformance, "types", threads, 3, seconds=90)
    for method in ("",) if check.fake else ("", *METHODS):
        check.run(f"algorithms {method or 'as chosen'}", *conformance, "algorithms", threads, 2 if check.fake else 4, seconds=60,
                  env={"TUTTI_METHOD": method})


def multimem(check):
    """All-reduces that the switch between the GPUs folds, where there is one: a GPU for each rank."""
    gpus = len(re.findall(r"GPU \d+", check.record["module"]))
    if "multicast memory" not in check.record["module"] or gpus < 2:
        return check.leave_out("multimem: it needs two GPUs or more that NVLink switches join")
    env = {"TUTTI_METHOD": "nvls"}
    ranks = min(gpus, 8)
    check.run("multimem types", sys.executable, "-B", ROOT / "tests/gpu/calls/conformance.py", check.tutti, "switch",
              "32" if check.fake else "512", ranks, seconds=90, env=env)
    most = "1M" if check.fake else "256M"
    flags = ("-t", ranks, "-b", 8, "-e", most, "-f", 32, "-n", 1 if check.fake else 10, "-w", 1)
    for size, (microseconds, model) in check.perf("multimem", *flags, env=env).items():
        check.measure(f"all-reduce, {ranks} GPUs, multimem, {size} B", microseconds, "us", model)
    return None


def wires(check):
    """Each method, a million uses of its links: a hundred thousand replays of a graph with ten calls, results checked."""
    replays, calls = (20, 5) if check.fake else (100000, 10)
    for method in METHODS:
        check.perf(f"a million calls by {method}", "-t", 2, "-b", 4000, "-e", 4000, "-n", calls, "-w", 1, "-c", 1, "-G", replays,
                   seconds=90, env={"TUTTI_METHOD": method})


def memory_check(check):
    """compute-sanitizer over short calls on every method."""
    found = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if check.fake or not found:
        return check.leave_out("memcheck: " + ("the stand-in has none" if check.fake else "there is no compute-sanitizer here"))
    for method in ("", "slots"):
        check.run(f"memcheck {method or 'as chosen'}", found, "--tool", "memcheck", "--error-exitcode", "9", check.tutti, "perf",
                  "all_reduce", "--device", "cuda", "-t", 2, "-b", 8, "-e", "64K", "-f", 64, "-n", 2, "-w", 1, "-c", 1, seconds=60,
                  env={"TUTTI_METHOD": method})
    return None


def clients(check, nccl_tests):
    """Each program on the real driver, with two ranks that share the first GPU, or have one each."""
    library = check.folder / "nccl/libnccl.so.2"
    for mode in ("device_threads", "device_processes"):
        check.run(f"client {mode}", check.folder / "tests/nccl/tutti_nccl_client", library, mode, 2, seconds=100)
    python = pathlib.Path.home() / ".cache/tutti-torch/bin/python"
    python = str(python) if python.exists() else "python3"
    sees = shell(python, "-c", "import torch; assert torch.cuda.is_available()")
    if sees.returncode == 0:
        check.run("torch", python, "-B", "tests/nccl/torch_gpu.py", seconds=100, env={"LD_PRELOAD": str(library)})
    else:
        check.leave_out(f"PyTorch: it cannot be imported or sees no GPU: {(sees.stderr.splitlines() or ['?'])[-1]}")
    for program in sorted(pathlib.Path(nccl_tests).resolve().glob("*_perf")) if nccl_tests else []:
        check.run(f"nccl-tests {program.name}", program, "-b", 8, "-e", "32M", "-f", 4, "-g", 1, "-t", 2, "-c", 1, "-n", 5, seconds=100,
                  env={"LD_PRELOAD": str(library)})


PARTS = {"first": (driver_facts, first_calls, memory_speed, unit_costs, speed, phases, sweeps), "second": (tests, multimem, wires, memory_check)}
