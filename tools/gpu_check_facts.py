"""Steps of tools/gpu_check that look at the GPU and its driver without the library: what the driver does beside a kernel, what
memory gives, and what single operations cost; beside each stands what the library, its stand-in and its model assume."""
import json
import pathlib
import shutil
import statistics
import sys

from gpu_check_run import ROOT

SPEED = ROOT / "tests/gpu/speed"
PHASES = ("enter", "wait", "move", "publish", "leave")  # src/exec/cuda/stamps.hpp
CONNECTIONS = ("1", None, "32")  # CUDA_DEVICE_MAX_CONNECTIONS; None: as the driver has it


def kernels(check, name):
    return check.folder / f"tests/gpu/speed/{name}.fatbin"


def script(check, name, file, *arguments, seconds=30, env=None):
    """Runs a script of tests/gpu/speed, and returns the lines of JSON that it printed, also if it failed."""
    twins = {"FAKE_CUDA_TWINS": str(check.folder / "tests/gpu/speed/libtutti_gpu_speed_twins.so")} if check.fake else {}
    check.run(name, sys.executable, "-B", SPEED / file, *arguments, seconds=seconds, env={**twins, **(env or {})})
    return [json.loads(line) for line in check.output.splitlines() if line.startswith("{")]


def driver_facts(check):
    """Guesses become rules: of each fact, what was found and what is assumed."""
    probes = kernels(check, "probes")
    check.add("driver_facts", script(check, "driver beside a kernel", "driver_facts.py", probes))
    for connections in CONNECTIONS:
        env = {"CUDA_DEVICE_MAX_CONNECTIONS": connections}
        name = f"queues of the driver, {connections or 'its own number of'} connections"
        check.add("driver_facts", script(check, name, "driver_facts.py", probes, "queues", seconds=20, env=env))


def memory_speed(check):
    """What the GPU's memory gives to a copy, and to a fold."""
    fold = kernels(check, "fold")
    megabytes = 1 if check.fake else 1024
    found = dict(pair for line in script(check, "ceilings", "ceilings.py", fold, megabytes, seconds=60) for pair in line.items())
    check.copy = found.get("copy_bytes_per_second")
    if check.copy:
        check.measure("copy, bytes read and written, TB/s", check.copy / 1e12, "TB/s")
        check.measure("fold of 2 operands, part of the copy's bandwidth", found["fold_bytes_per_second"] / check.copy, "")
        cost(check, "a byte folded, beyond copying one operand", found["fold_seconds_per_byte"], "cuda_fold_gamma", "ns/B")
        cost(check, "a byte that one block loads, folds and stores", found["block_seconds_per_byte"], "cuda_block_local", "ns/B")
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if check.fake or not ncu:  # only of a kernel that waits for no other: a profiler runs them one after the other
        return check.leave_out("ncu of the fold: " + ("the stand-in has none" if check.fake else "there is no ncu here"))
    profile = check.run("ncu of the fold", ncu, "--launch-count", 1, "--csv", "--page", "raw", sys.executable, "-B",
                        SPEED / "ceilings.py", fold, megabytes, seconds=60)
    check.record["ncu"] = (profile or "")[-12000:]
    return check.write()


def constants(check):
    """The model's unit costs, by name: src/topo/constants.def."""
    if check.constants is None:
        file = check.out.with_suffix(".tmp")
        done = check.run("the model's unit costs", check.tutti, "info", "--json", file, seconds=30)
        check.constants = json.loads(file.read_text())["constants"] if done is not None else {}
        pathlib.Path(file).unlink(missing_ok=True)
    return check.constants


def cost(check, what, seconds, constant, unit):
    """A unit cost that was measured, beside what the model charges."""
    model = None
    if constant is not None:
        known = constants(check).get(constant)
        if known is None:
            check.fail(f"{what}: the model has no {constant}")
        model = known["value"] * 1e9 if known else None
    check.measure(what, seconds * 1e9, unit, model, constant=constant)


def unit_costs(check):
    env = {"FAKE_CUDA_DEVICES": "2"} if check.fake else {}  # then it has multicast memory
    for row in script(check, "unit costs", "unit_costs.py", kernels(check, "units"), kernels(check, "probes"),
                      *(["SMALL"] if check.fake else []), env=env):
        if "why_not" in row:
            check.leave_out(f"{row['what']}{' (' + row['model'] + ')' if row.get('model') else ''}: {row['why_not']}")
        else:
            cost(check, row["what"], row["seconds"], row["model"], "ns")


def phases(check):
    """Where the time of a call goes, by stamps of %globaltimer that its blocks take: kernels of their own print them."""
    speed = check.folder / "tests/gpu/speed"
    env = {"TUTTI_MODULE_PATH": str(speed / "phases")}
    if check.fake:
        env["FAKE_CUDA_TWINS"] = str(speed / "libtutti_gpu_phases_twins.so")
    for size in (8, 256 << 10, (1 if check.fake else 256) << 20):
        name = f"phases, 4 ranks, {size} B"
        check.run(name, check.tutti, "perf", "all_reduce", "--device", "cuda", "-t", 4, "-b", size, "-e", size, "-n", 2, "-w", 2,
                  "-c", 0, env=env, seconds=25)
        blocks = last_call(check.output)
        if blocks:
            check.add("phases", phase_rows(f"all-reduce, 4 ranks, {size} B", blocks))
        elif name in check.passed:
            check.fail(f"{name}: no block printed its phases")


def last_call(output):
    """Of each rank's last call the blocks' numbers: start, moves, and nanoseconds of each phase."""
    calls = {}
    for line in output.splitlines():
        if line.startswith("tutti-phases "):
            rank, launch, _block, *numbers = line.split()[1:]
            calls.setdefault(rank, {}).setdefault(int(launch), []).append([int(number) for number in numbers])
    return [block for launches in calls.values() for block in launches[max(launches)]]


def phase_rows(call, blocks):
    """In microseconds, over all blocks of all ranks."""
    first = min(block[0] for block in blocks)
    columns = {"start": [block[0] - first for block in blocks],
               **{phase: [block[2 + i] for block in blocks] for i, phase in enumerate(PHASES)},
               "end": [block[0] - first + sum(block[2:]) for block in blocks]}
    rows = [{"call": call, "phase": phase, "blocks": len(blocks), "least": min(values) / 1e3,
             "middle": statistics.median(values) / 1e3, "most": max(values) / 1e3} for phase, values in columns.items()]
    return rows
