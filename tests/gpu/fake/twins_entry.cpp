// Linked into each shared object of twins: where the fake driver finds them.
#include "exec/cuda/device.hpp"

using namespace tutti::ptx;

extern "C" [[gnu::visibility("default")]] const host::Twin* fake_cuda_twins(
    const host::BlockRuntime* runtime, std::atomic<const host::Thread*>** current) {
  host::runtime = runtime;
  *current = &host::current;
  return host::twins;
}
