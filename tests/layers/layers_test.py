#!/usr/bin/env python3
"""Tests the layer check: it accepts a correct tree and finds each kind of violation."""
import pathlib
import tempfile
import unittest

import layers

GOOD = {
    "include/tutti/types.hpp": "", "include/tutti/error.hpp": "", "include/tutti/tutti.h": "",
    "include/tutti/tutti.hpp": '#include "tutti/tutti.h"\n',
    "src/base/log.hpp": '#include <vector>\n#include "hwy/highway.h"\n#include "tutti/error.hpp"\n',
    "src/topo/machine.hpp": '#include "base/log.hpp"\n',
    "src/reduce/fold.hpp": '#include "topo/machine.hpp"\n',
    "src/plan/plan.hpp": '#include "base/log.hpp"\n',
    "src/exec/host/run.hpp": '#include "plan/plan.hpp"\n#include "link/link.hpp"\n',
    "src/exec/backend.hpp": '#include "transports/transport.hpp"\n'
                            "namespace tutti::exec {\nclass Backend {\n};\n}  // namespace tutti::exec\n",
    "src/exec/pending.hpp": "namespace tutti::exec {\nclass Backend;\n}  // namespace tutti::exec\n",
    "src/exec/compile/lower.cpp": '#include "exec/backend.hpp"\n',
    "src/exec/cuda/cuda.cpp": '#include "exec/backend.hpp"\n#include "transports/cuda/cuda.hpp"\n',
    "src/exec/gpu/image.hpp": "namespace tutti::exec::gpu {\nstruct Image {\n};\n}  // namespace tutti::exec::gpu\n",
    "transports/cuda/cuda.hpp": '#include "transports/transport.hpp"\n',
    "transports/transport.hpp": '#include "link/link.hpp"\n',
    "transports/tcp/streams.hpp": "namespace tutti::transports::tcp {\nclass Streams final : public Base {\n};\n"
                                  "}  // namespace tutti::transports::tcp\n",
    "src/comm/communicator.cpp": '#include "exec/host/run.hpp"\n#include "tutti/tutti.h"\n'
                                 "// select::, a comment\nauto text = \"capi::\";\n",
    "src/capi/calls.cpp": '#include "comm/comm.hpp"\n#include "tutti/tutti.h"\n',
    "src/comm/comm.hpp": "namespace tutti::comm {\nclass Communicator {\n};\n}  // namespace tutti::comm\n",
    "src/train/train.cpp": "#include <tutti/tutti.hpp>\n",
    "algorithms/ring.cpp": '#include "plan/plan.hpp"\n',
    "src/link/link.hpp": '#include "base/log.hpp"\n',
    "transports/shm/shm.cpp": '#include "link/link.hpp"\n',
    "tools/perf.cpp": '#include "tutti/tutti.hpp"\n#include "base/log.hpp"\n',
    "tools/plan.cpp": '#include "plan/plan.hpp"\n',
    "bench/micro_fold.cpp": '#include "exec/host/run.hpp"\n',
}

BAD = {
    "src/base/up.cpp": '#include "plan/plan.hpp"\n',
    "src/base/api.cpp": '#include "tutti/tutti.h"\n',
    "src/topo/up.cpp": '#include "reduce/fold.hpp"\n',
    "src/plan/up.cpp": '\n  #  include "link/link.hpp"\n',
    "src/exec/up.cpp": '#include "comm/comm.hpp"\n',
    "src/exec/words.cpp": "// receives what all_reduce left\n",
    "src/comm/unknown.cpp": '#include "exec/such.hpp"\n',
    "src/capi/deep.cpp": '#include "link/link.hpp"\n',
    "src/train/inside.cpp": '#include "base/log.hpp"\n',
    "src/odd/new.cpp": "\n",
    "algorithms/machine.cpp": '#include "topo/machine.hpp"\n',
    "algorithms/across.cpp": '#include "link/link.hpp"\n',
    "transports/across.cpp": '#include "algorithms/ring.hpp"\n',
    "src/comm/comm.cpp": '#include "exec/host/run.hpp"\n',
    "src/comm/names.hpp": "void explain(const capi::Handle& handle);\n",
    "src/exec/executor.hpp": "namespace tutti::comm {\nclass Communicator;\n}  // namespace tutti::comm\n",
    "src/exec/links.hpp": '#include "transports/verbs/nic.hpp"\n',
    "src/exec/host/across.cpp": '#include "exec/gpu/image.hpp"\n',
    "src/exec/host/declares.hpp": "namespace tutti::exec::gpu {\nstruct Image;\n}  // namespace tutti::exec::gpu\n",
    "transports/verbs/verbs.cpp": '#include "transports/tcp/streams.hpp"\n',
    "transports/verbs/memory.cpp": '#include "transports/cuda/cuda.hpp"\n',
    "transports/verbs/declares.hpp": "namespace tutti::transports::tcp {\nclass Streams;\n}  // namespace tutti::transports::tcp\n",
    "transports/root.cpp": '#include "transports/verbs/nic.hpp"\n',
    "tools/inside.cpp": '#include "exec/host/run.hpp"\n',
    "include/tutti/leak.hpp": '#include "base/log.hpp"\n',
}
SUPPORT = {"algorithms/ring.hpp": "", "transports/verbs/nic.hpp": ""}


def build(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


class Layers(unittest.TestCase):
    def test_a_correct_tree_has_no_violations(self):
        with tempfile.TemporaryDirectory() as folder:
            build(pathlib.Path(folder), GOOD)
            self.assertEqual(layers.violations(pathlib.Path(folder)), [])

    def test_each_violation_is_found_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            build(pathlib.Path(folder), GOOD | SUPPORT | BAD)
            found = layers.violations(pathlib.Path(folder))
            self.assertEqual(sorted({line.split(":")[0] for line in found}), sorted(BAD))
            self.assertEqual(len(found), len(BAD), "\n".join(found))
            self.assertIn("src/plan/up.cpp:2", "\n".join(found))


if __name__ == "__main__":
    unittest.main()
