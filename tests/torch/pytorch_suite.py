"""PyTorch's own tests of torch.distributed, as its wheel brings them, with "tutti" where they say "gloo".

    python pytorch_suite.py [-k WORDS] [-v]

The text of torch.testing._internal.distributed.distributed_test is read from the installed wheel and changed in memory.
Tests of GPUs skip themselves. Exits with 0 if all others pass but those of KNOWN.
"""

import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest

NAME = "torch.testing._internal.distributed.distributed_test"
# What cannot pass: torch names every backend that it does not bring "custom" in DDP's logging data.
KNOWN = {"test_ddp_logging_data_cpu"}


def tests_of(backend):
    """The module of tests, for `backend` in place of Gloo."""
    path = importlib.util.find_spec(NAME).origin
    with open(path, encoding="utf-8") as file:
        text = re.sub(r'"gloo"|dist\.Backend\.GLOO', f'"{backend}"', file.read())
    module = types.ModuleType("distributed_test_of_" + backend)
    module.__file__ = path
    sys.modules[module.__name__] = module
    exec(compile(text, path, "exec"), module.__dict__)  # noqa: S102: it is torch's
    return module


def main():
    folder = tempfile.mkdtemp()
    os.mkdir(f"{folder}/test_dir")
    open(f"{folder}/barrier", "wb").close()
    os.environ.update(BACKEND="tutti", WORLD_SIZE=os.environ.get("WORLD_SIZE", "3"), TEMP_DIR=folder, OMP_NUM_THREADS="1",
                      PYTORCH_PRINT_REPRO_ON_FAILURE="0")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "60")
    import torch

    module = tests_of("tutti")

    class PyTorchs(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)  # spawned ones import torch again

    globals()["PyTorchs"] = PyTorchs
    program = unittest.main(module="__main__", exit=False)
    result = program.result
    failed = {test.id().split(".")[-1] for test, _ in [*result.failures, *result.errors]}
    print(f"PyTorch's own tests: {result.testsRun - len(result.skipped) - len(failed)} passed, {len(result.skipped)} skipped; "
          f"failed: {', '.join(sorted(failed)) or 'none'} (known: {', '.join(sorted(KNOWN))})")
    sys.exit(bool(failed - KNOWN))


if __name__ == "__main__":
    main()
