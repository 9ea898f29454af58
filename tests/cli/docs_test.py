"""What README.md, docs/ and the --help texts show is typed here as a stranger would: in a new home, without the environment
of the tests. Only what takes long is shortened."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from support import TUTTI, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("*/README.md")),
         *sorted(ROOT.glob("src/*/**/README.md")), *sorted(ROOT.glob("tests/*/**/README.md"))]
COMMANDS = ("", "perf", "run", "plan", "plan list", "plan show", "plan verify", "plan draw", "plan export", "plan import",
            "plan synth", "topo", "explain", "sim", "tune", "train", "lab", "info", "env", "status", "top", "trace", "watch")
COMMAND = r"(?:[A-Z_]+=\S+ )*tutti (?!…).*"
FOLDERS = "(?:src|tests|tools|bench|docs|transports|algorithms)"
LIMIT = 120

# Other hosts (tests/launchers/hosts_test.py has them), a GPU, a job that runs (status_test.py).
NOT_HERE = re.compile(r"tutti (?:run|tune) .*(?:--hosts|--hostfile)|--device cuda|tutti (?:status|top|trace|watch)")
SHORTER = (
    (r"\bNAME\b", "chain"), (r"\bCOLLECTIVE\b", "broadcast"),
    (r"(tutti train .*)--steps \d+", r"\1--steps 2"), (r"^(?!.*--steps)(.*\btutti train.*)$", r"\1 --steps 2"),
    (r"--steps 2 (.*--resume)", r"--steps 3 \1"), (r"--pace \d+", "--pace 1"), (r"(tutti perf .*)-e \w+", r"\1-e 64"),
    (r"^(?!.* -e )(.*\btutti perf.*)$", r"\1 -e 64"), (r"(tutti tune.*)", r"\1 -e 8"),
    (r"(tutti sim .*)--hosts 16 --compare", r"\1--hosts 2 --compare"),
)


def help_of(command):
    return subprocess.run([TUTTI, *command.split(), "--help"], capture_output=True, text=True, check=True).stdout


def trains():
    return "not in this build" not in help_of("train")


def shown():
    """Every command with the place that shows it, once."""
    commands = {}
    for page in PAGES:
        text, name = page.read_text(), page.relative_to(ROOT)
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
            for line in re.findall(rf"^{COMMAND}$", block, re.M):
                commands.setdefault(re.sub(r"\s+# .*", "", line), name)
        for line in re.findall(rf"^    ({COMMAND})$", text, re.M):
            commands.setdefault(re.sub(r"\s{2,}.*", "", line), name)
    for command in COMMANDS:
        for line in re.findall(rf"^  ({COMMAND})$", help_of(command).partition("Example")[2], re.M):
            commands.setdefault(line, f"tutti {command} --help")
    return commands


class Shown(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.env = {"HOME": f"{folder.name}/home", "PATH": f"{os.path.dirname(TUTTI)}:/usr/bin:/bin", "TERM": "xterm",
                    "LANG": "C.UTF-8"}
        # What sanitizers need is not the tests' own.
        self.env.update((name, value) for name, value in os.environ.items()
                        if name.endswith("SAN_OPTIONS") or name == "HWLOC_PLUGINS_PATH")
        (self.folder / "home").mkdir()
        (self.folder / "tests").symlink_to(ROOT / "tests")
        for name in "hgx.xml", "dump.xml":
            shutil.copy(ROOT / "tests/topologies/nccl-8-gpus-8-nics.xml", self.folder / name)
        for name in "sum", "program", "train":
            shutil.copy("/bin/true", self.folder / name)
        self.typed("tutti plan export ring -n 4 -o mine.json")

    def typed(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
        if "TUTTI_LOG" not in command and "TUTTI_EXPLAIN" not in command:
            self.assertEqual(done.stderr, "", command)
        return done.stdout

    def test_commands_do_what_they_say(self):
        commands = shown()
        self.assertGreater(len(commands), 80 if trains() else 60)
        parts = {"tutti train": trains(), "simgrid": re.search("simgrid +built with", self.typed("tutti info"))}
        absent = [word for word, built in parts.items() if not built]
        for command, place in commands.items():
            if NOT_HERE.search(command) or any(word in command for word in absent):
                continue
            for long, short in SHORTER:
                command = re.sub(long, short, command)
            with self.subTest(f"{place}: {command}"):
                if "--save" in command and "--resume" not in command:
                    shutil.rmtree(self.folder / "ckpt", ignore_errors=True)
                self.typed(command)

    def test_output_that_pages_show_is_what_comes(self):
        """A block after `<!-- output of: COMMAND -->`: its lines come in this order; … stands for others between them."""
        shown_outputs = [(page, command, block) for page in PAGES for command, block in
                         re.findall(r"^<!-- output of: ([^\n]*) -->\n```\n(.*?)^```", page.read_text(), re.M | re.S)]
        self.assertGreater(len(shown_outputs), 2)
        for page, command, block in shown_outputs:
            with self.subTest(f"{page.relative_to(ROOT)}: {command}"):
                rest = iter(line.rstrip() for line in self.typed(command).splitlines())
                for line in block.splitlines():
                    self.assertTrue(line.strip() in ("…", "") or line.rstrip() in rest, f"not printed: {line}")

    def test_a_profile_of_the_default_path_is_used(self):
        self.typed("tutti tune -e 8")
        self.assertEqual(len(list(self.folder.glob("home/.cache/tutti/*.json"))), 1)
        told = self.typed("TUTTI_LOG=debug tutti perf all_reduce --np 2 -b 8 -e 8 2>&1")
        self.assertRegex(told, r"first all_reduce\(count=2, f32, sum\): \w+ by lanes over shm \(the profile says ")

    @unittest.skipUnless(trains(), "the training layer is not in this build")
    def test_activations_of_context_parallelism_are_those_of_the_page(self):
        job = "--layers 2 --length 1024 --batch 2 --steps 2"
        held = [re.search(r"activations ([\d.]+)", self.typed(f"tutti train {mesh} {job}"))[1]
                for mesh in ("-n 1", "-n 2 --cp 2", "-n 4 --cp 4", "-n 2 --cp 2 --cp-mode ulysses")]
        alone, two, four, ulysses = (f"{float(mebibytes):.1f}" for mebibytes in held)
        page = " ".join((ROOT / "docs/training.md").read_text().split())
        self.assertIn(f"Rank 0 held {alone} MiB of activations alone, {two} and {four} MiB with a ring of 2 and 4", page)
        self.assertIn(f"and {ulysses} MiB with Ulysses on 2", page)


class Pages(unittest.TestCase):
    def test_options_exist(self):
        known = {command: set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z_-]*", help_of(command))) for command in COMMANDS}
        for page in PAGES:
            for words in re.findall(r"`tutti ([a-z][^`…\n]*)`", page.read_text()):
                command = max((c for c in COMMANDS if words == c or words.startswith(c + " ")), key=len, default="")
                if command == "train" and not trains():
                    continue
                for option in re.findall(r"(?<=\s)--?[a-zA-Z][a-z_-]*", words.split(" -- ")[0]):
                    self.assertIn(option, known[command], f"{page.relative_to(ROOT)}: `tutti {words}`")

    def test_names_exist(self):
        sources = "".join(path.read_text() for path in [*ROOT.glob("include/**/*.h*"), ROOT / "src/base/env_table.def"])
        settings = (ROOT / "tests").rglob("CMakeLists.txt"), ROOT.glob("cmake/*"), ROOT.glob("CMakeLists.txt")
        sources += "".join(path.read_text() for some in settings for path in some)
        for page in PAGES:
            for name in set(re.findall(r"\b(?:TUTTI_[A-Z_]*[A-Z]|tutti[A-Z]\w+)\b", page.read_text())):
                if page.name not in ("operator.md", "type.md"):  # whose examples add one
                    self.assertRegex(sources, rf"\b{name}\b", page.relative_to(ROOT))

    def test_the_index_has_every_page(self):
        index = (ROOT / "docs/README.md").read_text()
        pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*") if path.is_file()]
        self.assertGreater(len(pages), 20)
        for page in pages:
            if page.name != "README.md":
                self.assertIn(f"]({page})", index)

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 150)

    def test_the_newest_changes_are_of_this_version(self):
        newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
        self.assertEqual(subprocess.run([TUTTI, "--version"], capture_output=True, text=True).stdout, f"tutti {newest}\n")

    def test_files_exist(self):
        for page in PAGES:
            text = page.read_text()
            paths = [ROOT / path for path in re.findall(rf"\b({FOLDERS}/[\w/.-]+\.(?:py|[chm]pp|md|def|sh|json|xml))\b", text)]
            paths += [page.parent / path for path in re.findall(r"\]\(([\w./-]+)[)#]", text)]
            for path in paths:
                if not re.search(r"NAME|DATE|absmax", path.name):
                    self.assertTrue(path.exists(), f"{page.relative_to(ROOT)}: {path}")


if __name__ == "__main__":
    main()
