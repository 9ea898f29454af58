// Where a buffer lies, and so which backend runs a call on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/process_generation.hpp"
#include "comm/call.hpp"
#include "exec/backend.hpp"

namespace tutti::comm {

/// By backend, in the order of exec::backends(): the processor that the calling thread uses.
std::vector<int> current_processors();

namespace detail {
inline std::atomic<uint64_t> others_used_by{0};  // process_generation()
}
/// True once a rank of this process uses another backend than the host's: only then may a buffer lie elsewhere than in
/// host memory. (In a child of fork() a GPU's driver does not work, and its locks may be held for ever. A communicator
/// that uses it is the parent's.)
inline bool other_backends_in_use() {
  return detail::others_used_by.load(std::memory_order_relaxed) == process_generation();
}
/// A rank of this process uses it from now on.
void note_use_of(const exec::BackendEntry& entry);

/// The number of the backend that owns this memory. Only where other_backends_in_use(). Throws Error(InvalidUsage) if
/// two of them own it.
uint8_t backend_of(const void* data);

/// The number of the backend that runs the call: the one that owns its buffers. With a stream that is not the host's
/// (`other_stream`) it is never the host's. Throws Error(InvalidArgument) if two buffers lie in memory of different
/// ones.
uint8_t backend_of(const Call& call, bool other_stream);

}  // namespace tutti::comm
