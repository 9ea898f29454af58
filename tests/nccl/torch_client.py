#!/usr/bin/env python3
"""PyTorch on libnccl.so.2, without a GPU: `tools/test --torch` runs it with the Python that has torch.

    torch_client.py LIBRARY        imports torch with the library preloaded, and sees whose functions it calls
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The version is the one that PyTorch was built with. The id is the library's: ours marks it where NCCL_COMM_ID is set.
ASK = "import torch; print(*torch.cuda.nccl.version()); print(torch.cuda.nccl.unique_id()[:5])"
BINDING = re.compile(r"binding file \S*/libtorch_cuda\.so \[0\] to (\S+) \[0\]: normal symbol `p?nccl\w+'")
library = pathlib.Path(sys.argv[1]).resolve()


def ask(folder: str, **variables: str) -> tuple[str, list[pathlib.Path]]:
    """The id, and where each of PyTorch's nccl symbols is bound."""
    variables |= {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": f"{folder}/log", "LD_BIND_NOW": "1", "NCCL_COMM_ID": "127.0.0.1:1"}
    done = subprocess.run([sys.executable, "-c", ASK], env=os.environ | variables, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{variables}: status {done.returncode}\n{done.stderr}")
    bound = []
    for log in pathlib.Path(folder).glob("log.*"):
        with log.open(errors="replace") as lines:
            bound += [pathlib.Path(match[1]).resolve() for line in lines if (match := BINDING.search(line))]
        log.unlink()
    version, identity = done.stdout.splitlines()
    print(f"{'LD_PRELOAD' if 'LD_PRELOAD' in variables else 'LD_LIBRARY_PATH'}: torch.cuda.nccl.version() is {version}; of "
          f"{len(bound)} symbols {bound.count(library)} are bound to {library.name}; an id begins with {identity}")
    return identity, bound


with tempfile.TemporaryDirectory() as folder:
    identity, bound = ask(folder, LD_PRELOAD=str(library))
    right = identity == "b'tutti'" and len(bound) > 40 and set(bound) == {library}
    (pathlib.Path(folder) / "libnccl.so.2").symlink_to(library)
    _, bound = ask(folder, LD_LIBRARY_PATH=folder)  # its RPATH beats that, as docs/nccl.md says
    if library in bound:
        print("LD_LIBRARY_PATH works too: docs/nccl.md says that it does not")
        right = False
sys.exit(not right)
