"""Every option of every command with extreme values: each gives a result or an error that names it, soon and in bounds.

    extremes_test.py TUTTI ANY [all] [unittest's arguments]

With `all` the values are all of VALUES, else a few of them. Nothing crashes, no arithmetic is undefined (in a build with
UBSan), no memory beyond 2 GiB is taken, and no error is one of an exhausted machine or a defect. A command that an option
asks to go on for long may do so: it is stopped. The options are read from the commands' own help.
"""

import concurrent.futures
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import unittest

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
if len(sys.argv) > 1:
    sys.argv.pop(1)  # every script of this folder gets it
ALL = len(sys.argv) > 1 and sys.argv[1] == "all"
if ALL:
    sys.argv.pop(1)
SANITIZED = b"__asan_init" in open(TUTTI, "rb").read() if TUTTI else False  # which takes memory of its own
SECONDS = 4  # for a command, which would be stopped then
MOST_MEMORY = 2 << 20  # KiB
VALUES = ["0", "1", "-1", "4096", "65536", "2147483647", "2147483648", "4294967295", "4294967296", str(2**62),
          str(2**63 - 1), str(2**63), str(2**64 - 1), str(2**64), "9" * 40, "1e308", "-1e308", "1e-320", "nan", "inf", "", " ", "8E", "16E",
          "4611686018427387904K", "0x10", "1,2", "\u00a0", "%s%n"]
FEW = ["-1", "2147483647", str(2**62), str(2**64 - 1), "nan", ""]
# A quick run of each command; options are added to it.
COMMANDS = {
    "perf": ["perf", "all_reduce", "-t", "2", "-b", "8", "-e", "64", "-n", "1", "-w", "0"],
    "run": ["run", "-n", "1", "--", "true"],
    "plan list": ["plan", "list"],
    "plan show": ["plan", "show", "ring", "all_reduce"],
    "plan verify": ["plan", "verify", "ring", "all_reduce"],
    "plan draw": ["plan", "draw", "ring", "all_reduce", "-o", "OUT.svg"],
    "plan export": ["plan", "export", "ring", "all_reduce"],
    "topo": ["topo"],
    "explain": ["explain", "all_reduce"],
    "sim": ["sim", "all_reduce"],
    "tune": ["tune", "-n", "2", "-e", "64", "-o", "OUT"],
    "train": ["train", "-n", "1", "--steps", "1", "--layers", "1", "--width", "8", "--heads", "1", "--length", "4",
              "--batch", "2", "--text", "TEXT"],
    "lab": ["lab"],
}
BROKEN = re.compile("runtime error|Sanitizer|bad_alloc|is WRONG|defect|terminate called|Assertion|out of memory")
BUFFERS = ("--minbytes", "--maxbytes", "--stepbytes")  # of perf: their sizes are what was asked for
REPLACED = {"--minbytes": "-b", "--maxbytes": "-e", "--iters": "-n", "--warmup_iters": "-w", "--nthreads": "-t",
            "--np": "-n"}


def options_of(command):
    """The options that take a value, by their last name."""
    text = subprocess.run([TUTTI, "help", *command.split()], capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+(-[^ ]+)\s+([A-Z]\S*|:\{\S*)", line)
        if match:
            found.append(match.group(1).split(",")[-1])
    return [option for option in found if option != "--help"]


def run(words, folder):
    """Exit status (None: stopped after SECONDS), output, KiB at most. Files are written into the folder."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, cwd=folder, env={**os.environ, "XDG_CACHE_HOME": folder})
    stopped = threading.Event()

    def stop():
        stopped.set()
        os.killpg(process.pid, 9)

    timer = threading.Timer(SECONDS, stop)
    timer.start()
    output = b""
    while data := process.stdout.read1(65536):
        output = (output + data)[-65536:]
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = status
    code = None if stopped.is_set() else os.waitstatus_to_exitcode(status)
    return code, output.decode(errors="replace"), usage.ru_maxrss


class Extremes(unittest.TestCase):
    def check(self, command):
        options = options_of(command)
        self.assertTrue(options, "the help names no option with a value")
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text")
            with open(text, "w", encoding="ascii") as file:
                file.write("To be read, byte for byte. " * 100)
            base = [word.replace("OUT", os.path.join(folder, "out")).replace("TEXT", text)
                    for word in COMMANDS[command]]

            def one(case):
                option, value = case
                words = [TUTTI, *base]
                short = REPLACED.get(option, option)
                if short in words and "--" not in words:  # instead of the quick run's own
                    at = words.index(short)
                    del words[at:at + 2]
                at = words.index("--") if "--" in words else len(words)
                joined = [f"{option}={value}"] if option.startswith("--") else [option, value]
                return case, run(words[:at] + joined + words[at:], folder)

            cases = [(option, value) for option in options for value in (VALUES if ALL else FEW)]
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for (option, value), (status, output, memory) in pool.map(one, cases):
                    with self.subTest(command=command, option=option, value=value):
                        self.assertTrue(status is None or status >= 0, f"exit status {status}:\n{output}")
                        self.assertNotRegex(output, BROKEN)
                        self.assertFalse(value == "" and status == 0, "an empty value was taken")
                        if option not in BUFFERS and not SANITIZED:
                            self.assertLessEqual(memory, MOST_MEMORY)
                        if status:
                            self.assertNotEqual(output.strip(), "")


for one_command in COMMANDS:
    setattr(Extremes, "test_" + one_command.replace(" ", "_"), lambda self, command=one_command: self.check(command))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main()
