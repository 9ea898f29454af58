"""What is compared: each program, how it is started, and to which group its figures count."""

import dataclasses
import os

TUTTI, DEBIAN, OTHERS, CEILING = "tutti", "debian", "others", "ceiling"


@dataclasses.dataclass(frozen=True)
class Program:
    """One library in one way of being used. In `command`, {folder} and {ranks} stand for themselves."""
    name: str
    group: str
    command: tuple
    crowded: tuple = ()  # stands where {crowded} does when ranks outnumber cores
    environment: tuple = ()  # (name, value) pairs
    smallest: int = 0  # bytes below which it is not asked
    crowds: bool = True  # is it of interest where ranks outnumber cores?
    lacks: tuple = ()  # collectives that it has not

    def arguments(self, folder, ranks, cores):
        words = []
        for word in self.command:
            if word == "{crowded}":
                words += self.crowded if ranks > cores else ()
            else:
                words.append(word.replace("{folder}", folder).replace("{ranks}", str(ranks)))
        return words

    def variables(self):
        return {**os.environ, **dict(self.environment)}


def tutti(release):
    """Process ranks with plain memory, with mapped memory and with windows in it, and ranks that are threads."""
    binary = f"{release}/bench/peer_tutti"
    run = (f"{release}/tools/tutti", "run", "-n", "{ranks}", "--", binary, "{folder}")
    return [Program("tutti", TUTTI, (*run, "plain")),
            Program("tutti-mapped", TUTTI, (*run, "mapped"), crowds=False),
            Program("tutti-window", TUTTI, (*run, "window")),
            Program("tutti-threads", TUTTI, (binary, "{folder}", "threads", "{ranks}"), crowds=False)]


def ceiling(release):
    """The same exchange with ordinary and with streaming stores; the better of the two is the ceiling."""
    exchange = (f"{release}/bench/ceilings", "exchange", "{folder}", "{ranks}")
    return [Program("ceiling", CEILING, exchange),
            Program("ceiling-streaming", CEILING, (*exchange, "stream"), smallest=1 << 20, crowds=False)]


def _open_mpi(name, group, launcher, binary, *parameters):
    """Ranks bind themselves; where they outnumber the cores an idle one yields: else all would be at their worst."""
    command = (launcher, "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "{crowded}", "-np", "{ranks}")
    settings = [word for key, value in parameters for word in ("--mca", key, value)]
    return Program(name, group, (*command, *settings, binary, "{folder}"),
                   crowded=("--mca", "mpi_yield_when_idle", "1"))


def open_mpi_4(launcher, binary):
    shared = ("btl", "self,vader")
    return [
        _open_mpi("openmpi4", DEBIAN, launcher, binary, ("pml", "ob1"), shared),
        _open_mpi("openmpi4-nocma", DEBIAN, launcher, binary, ("pml", "ob1"), shared,
                  ("btl_vader_single_copy_mechanism", "none")),
        _open_mpi("openmpi4-ucx", DEBIAN, launcher, binary, ("pml", "ucx"), ("pml_ucx_tls", "any"),
                  ("pml_ucx_devices", "any")),
        _open_mpi("openmpi4-sm", DEBIAN, launcher, binary, ("pml", "ob1"), shared, ("coll_sm_priority", "100")),
    ]


def open_mpi_5(launcher, binary):
    return [_open_mpi("openmpi5", OTHERS, launcher, binary, ("pml", "ob1"), ("btl", "self,sm")),
            _open_mpi("openmpi5-ucx", OTHERS, launcher, binary, ("pml", "ucx"), ("pml_ucx_tls", "any"),
                      ("pml_ucx_devices", "any"))]


def mpich(name, group, launcher, binary):
    command = (launcher, "-bind-to", "none", "-n", "{ranks}", binary, "{folder}")
    return [Program(name, group, command),
            Program(name + "-nocma", group, command, environment=(("UCX_TLS", "self,sysv,posix"),))]


def oneccl(binary):
    """Over its shared memory. Its ranks make progress themselves: with its worker threads a core would have two."""
    return [Program("oneccl", OTHERS, (binary, "{folder}", "{ranks}"), lacks=("gather", "scatter"), environment=(
        ("CCL_ATL_TRANSPORT", "ofi"), ("CCL_ATL_SHM", "1"), ("FI_PROVIDER", "tcp"), ("CCL_WORKER_OFFLOAD", "0"),
        ("CCL_LOG_LEVEL", "error")))]


def gloo_through_torch(python, script):
    """The release that PyTorch brings, with PyTorch's own time."""
    return [Program("gloo-torch", OTHERS, (python, "-B", script, "{folder}", "{ranks}"))]


def gloo(binary):
    """As PyTorch uses it. Its reads that poll instead of sleeping exist only for its older algorithms."""
    return [Program("gloo", OTHERS, (binary, "{folder}", "{ranks}"))]
