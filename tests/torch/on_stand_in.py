#!/usr/bin/env python3
"""PyTorch's CUDA on the stand-ins for the driver and the runtime, without a GPU: `tools/test --torch` runs it.

    on_stand_in.py BUILD [TEST...]     BUILD: a build tree with the targets of NEEDED; TEST: as unittest names them

tests/torch/gpu has the tests: of the backend `tutti`, and of PyTorch's own backend `nccl` on the tree's libnccl.so.2.
"""
import os
import pathlib
import subprocess
import sys

import torch

NEEDED = {"tutti_fake_runtime": "tests/gpu/fake_runtime/libtutti_fake_runtime.so",
          "tutti_fake_cuda": "tests/gpu/fake/lib/libcuda.so.1",
          "tutti_gpu_twins": "tests/gpu/calls/libtutti_gpu_twins.so",
          "tutti_cuda": "transports/cuda/libtutti_cuda.so",
          "tutti_nccl": "nccl/libnccl.so.2"}

build = pathlib.Path(sys.argv[1]).resolve()
path = {target: str(build / file) for target, file in NEEDED.items()}
missing = [target for target, file in path.items() if not os.path.exists(file)]
if missing:
    sys.exit(f"on_stand_in.py: {build} has no {', '.join(missing)} (they need nvcc and the headers of CUDA 13)")
if (torch.version.cuda or "none").split(".")[0] != "13":
    sys.exit(f"on_stand_in.py: this PyTorch is for CUDA {torch.version.cuda}, and the stand-in for the runtime is one of CUDA 13")

variables = {"LD_LIBRARY_PATH": os.path.dirname(path["tutti_fake_cuda"]), "FAKE_CUDA_TWINS": path["tutti_gpu_twins"],
             "FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_RULES": "drain,queue",
             "TUTTI_BLOCK_THREADS": "32", "TUTTI_CALIBRATION": "0", "TUTTI_TIMEOUT": "60"}
modules = {"TUTTI_MODULE_PATH": os.path.dirname(path["tutti_cuda"])}  # tutti_torch has its own
folder = pathlib.Path(__file__).resolve().parent / "gpu"
failed = False
for pattern, preloaded, more in (("gpu_*_test.py", [path["tutti_fake_runtime"]], {}),
                                 ("nccl_test.py", [path["tutti_nccl"], path["tutti_fake_runtime"]], modules)):
    named = [test for test in sys.argv[2:] if test.startswith("nccl_test") == pattern.startswith("nccl")]
    if sys.argv[2:] and not named:
        continue
    what = named if named else ["discover", "-p", pattern]
    done = subprocess.run([sys.executable, "-B", "-m", "unittest", *what, "-v"], cwd=folder,
                          env=os.environ | variables | more | {"LD_PRELOAD": ":".join(preloaded)})
    failed |= done.returncode != 0
sys.exit(failed)
