"""Steps of tools/gpu_check: how one is run, what is kept of it, and what is looked at before one that hangs is killed."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from gpu_check_report import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
AIMS = {  # of one GPU: at most (first), or at least (second)
    "fold of 2 operands, part of the copy's bandwidth": (None, 0.92),
    "all-reduce, 4 ranks on one GPU, graph replay, 8 B": (7, None),
    "all-reduce, 4 ranks on one GPU, graph replay, 262144 B": (12, None),
    "all-reduce, 4 ranks, time over that of its bytes at the copy's bandwidth": (1.25, None),
    "creation of 4 ranks, s": (0.5, None)}
BROKEN = {  # what --break makes of a step: seconds, and what runs instead or is set
    "hang": {"command": ["sleep", "1000"], "seconds": 3},
    "fail": {"command": ["false"], "seconds": 3},
    "stick": {"env": {"FAKE_CUDA_INJECT": "stuck:4"}, "seconds": 20}}  # of the stand-in: the fourth kernel does not begin
OUTPUT = "output"  # what a step prints, among its logs
BOARDS = 16  # of a step, at most
FAKE_LIMIT = 4  # times the seconds of a step: the stand-in takes as long as the processor lets it
ROOM = 12000  # characters that are kept of what a failed step printed, or a debugger


def shell(*command, **how):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **how)


def processes_of(session):
    """The processes of a session, from /proc."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def debugger():
    """A debugger's command that shows where kernels and threads are; [] where there is none."""
    cuda = shutil.which("cuda-gdb") or shutil.which("/usr/local/cuda/bin/cuda-gdb")
    if cuda:
        return [cuda, "-batch", "-ex", "info cuda kernels", "-ex", "info cuda warps", "-ex", "thread apply all bt 8"]
    plain = shutil.which("gdb")
    return [plain, "-batch", "-ex", "thread apply all bt 8"] if plain else []


def boards(logs, processes):
    """What each rank last wrote of its calls on a GPU, while none ended for a second: src/exec/gpu/board.hpp. Of these processes, or
    else of the last that wrote."""
    found = [logs / f"{process}.log" for process in processes] or sorted(logs.glob("*.log"), key=lambda log: log.stat().st_mtime)
    last = {}
    for log in found:
        for line, rank in re.findall(r"(board: (rank \d+) .*)", log.read_text(errors="replace") if log.exists() else ""):
            last[log.name, rank] = line
    return list(last.values())[-BOARDS:]


class Check:
    """What the steps found, and the time that is left."""

    def __init__(self, folder, out, fake, pack, minutes, broken):
        self.folder, self.out, self.fake, self.broken = folder, out, fake, broken
        self.until = time.monotonic() + 60 * minutes
        self.passed, self.failed, self.left_out, self.measured = [], [], [], []
        self.hung = False  # the last step
        self.output = ""  # of the last step
        self.copy = None  # bytes per second, when they are known
        self.constants = None  # the model's, when they are known
        self.record = {}
        self.env = dict(os.environ, TUTTI_MODULE_PATH=str(folder / "transports/cuda"), CUDA_DEVICE_MAX_CONNECTIONS="32",
                        TUTTI_TIMEOUT="60" if fake else "8")
        self.env.pop("FAKE_CUDA_TWINS", None)
        if fake:
            gpu = folder / "tests/gpu"
            self.env.update(LD_LIBRARY_PATH=str(gpu / "fake/lib"), FAKE_CUDA_TWINS=str(gpu / "calls/libtutti_gpu_twins.so"),
                            FAKE_CUDA_RULES="drain,queue", TUTTI_BLOCK_THREADS="32", TUTTI_CALIBRATION="0")
        elif pack:
            self.env["LD_LIBRARY_PATH"] = f"{folder / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        self.tutti = folder / "tools/tutti"

    def write(self):
        self.record.update(passed=self.passed, failed=self.failed, left_out=self.left_out, measured=self.measured)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.write_text(json.dumps(self.record, indent=1) + "\n")
        self.out.with_suffix(".txt").write_text(report(self.record, self.fake))

    def add(self, table, rows):
        """Rows of a table of the report."""
        self.record.setdefault(table, []).extend(rows)
        self.write()

    def fail(self, text):
        self.failed.append(text)
        print(f"FAILED  {text}", flush=True)
        self.write()

    def leave_out(self, text):
        self.left_out.append(text)
        self.write()

    # ---- a step

    def run(self, name, *command, seconds=60, env=None):
        """Runs a step, with all its processes, for so long at most. Returns its output; None if it failed or was left out."""
        self.hung, self.output = False, ""
        left = self.until - time.monotonic()
        if left < 5:
            return self.leave_out(f"{name}: no time is left")
        broken = BROKEN.get(self.broken.get(name), {})
        command = broken.get("command", command)
        seconds = min(seconds * (FAKE_LIMIT if self.fake else 1), left, broken.get("seconds", left))
        logs = self.out.with_suffix(".logs")
        logs.mkdir(parents=True, exist_ok=True)
        env = {**self.env, "TUTTI_LOG": "debug", "TUTTI_LOG_FILE": str(logs / "%p.log"), **(env or {}), **broken.get("env", {})}
        env = {key: value for key, value in env.items() if value is not None}
        begun = time.monotonic()
        with open(logs / OUTPUT, "wb") as printed:  # no pipe: a service that the step starts would keep it open
            process = subprocess.Popen([str(word) for word in command], stdout=printed, stderr=subprocess.STDOUT, cwd=ROOT, env=env,
                                       start_new_session=True)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.hung = True
            self.tell_boards(name, boards(logs, processes_of(process.pid)))
            self.look_at(name, process.pid)
            self.kill(process)
        output = (logs / OUTPUT).read_text(errors="replace") + (f"\nnot done after {seconds:.0f} s" if self.hung else "")
        self.output = output
        good = process.returncode == 0 and not self.hung
        (self.passed if good else self.failed).append(name)
        print(f"{'passed' if good else 'HUNG  ' if self.hung else 'FAILED'}  {name}  {time.monotonic() - begun:.1f} s", flush=True)
        if not good:
            self.record.setdefault("output", {})[name] = output[-ROOM:]
            print(output[-1500:], flush=True)
            if not self.hung:
                self.tell_boards(name, boards(logs, ()))
        shutil.rmtree(logs, ignore_errors=True)
        self.write()
        return output if good else None

    def tell_boards(self, name, told):
        """For what its ranks last said that they wait: of a step that hangs before it is looked at, which may take long."""
        self.record.setdefault("boards", {})[name] = told
        for line in told:
            print(f"  {line}", flush=True)
        self.write()

    @staticmethod
    def kill(process):
        """Of a process that the driver holds in the kernel, its end is not awaited."""
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            print(f"  process {process.pid} does not end, although it was killed", flush=True)

    def look_at(self, name, session):
        """What the driver says of errors, and where the threads and kernels of a step are that does not end."""
        words = debugger()
        seen = {"xid": [line for line in shell("dmesg").stdout.splitlines() if "Xid" in line][-20:]}
        for pid in processes_of(session)[:4] if words else []:
            try:
                seen[f"process {pid}"] = shell(*words, "-p", pid, timeout=25).stdout[-ROOM:]
            except subprocess.TimeoutExpired:
                seen[f"process {pid}"] = "the debugger did not end within 25 s"
        if not words:
            seen["debugger"] = "neither cuda-gdb nor gdb is here"
        self.record.setdefault("hung", {})[name] = seen
        self.write()

    def measure(self, key, value, unit, model=None, constant=None):
        """Writes down a figure, beside the cost model's (the constant of this name) and what is aimed at."""
        most, least = AIMS.get(key, (None, None))
        missed = not self.fake and ((most is not None and value > most) or (least is not None and value < least))
        row = {"what": key, "measured": value, "unit": unit}
        words = f"{value:.4g} {unit}"
        if constant:
            row["constant"] = constant
        if model:
            row.update(model=model, ratio=value / model)
            words += f"; model{' (' + constant + ')' if constant else ''} {model:.4g}, ratio {value / model:.2f}"
        for name, aim in (("at_most", most), ("at_least", least)):
            if aim is not None:
                row[name] = aim
                words += f"; {name.replace('_', ' ')} {aim}"
        self.measured.append(row)
        print(f"  {key}: {words}{'  MISSED' if missed else ''}", flush=True)
        if missed:
            self.failed.append(f"{key}: {value:.4g} {unit}")
        self.write()

    def perf(self, name, *flags, collective="all_reduce", env=None, seconds=60):
        """A row for each size: {bytes: (measured, the model's)}, in microseconds; {} if the step failed."""
        file = self.out.with_suffix(f".{re.sub('[^a-z0-9]+', '-', name)}.tmp")
        done = self.run(name, self.tutti, "perf", collective, "--device", "cuda", *flags, "--json", file, seconds=seconds, env=env)
        results = json.loads(file.read_text())["results"] if done is not None and file.exists() else []
        file.unlink(missing_ok=True)
        return {row["size"]: (row["out_of_place"]["time_us"], row["out_of_place"]["model_us"]) for row in results}

    def end(self):
        for text in self.left_out:
            print(f"left out  {text}")
        print(f"{len(self.passed)} passed, {len(self.failed)} failed: {', '.join(self.failed) or 'none'}; {self.out}")
        return 1 if self.failed else 0
