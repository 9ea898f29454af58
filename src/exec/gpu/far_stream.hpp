// A stream of a GPU that moves what peers of other hosts put into windows, and get from them. Nothing on it waits, so
// whoever waits for what it does waits for the GPU alone. It should share no hardware queue with the user's streams,
// which may wait for peers.
#pragma once

#include <cstdint>

#include "exec/gpu/far_request.hpp"

namespace tutti::exec::gpu {

/// One thread at a time. Addresses are the GPU's. Throws Error(SystemError) if the GPU has failed.
class FarStream {
 public:
  FarStream() = default;
  virtual ~FarStream() = default;
  FarStream(const FarStream&) = delete;
  FarStream& operator=(const FarStream&) = delete;

  virtual void copy(uint64_t to, uint64_t from, uint64_t bytes) = 0;
  /// The atomic step that is asked for, on the word at `at`; what was there before goes to `before`.
  virtual void step(const FarRequest& request, uint64_t at, uint64_t before) = 0;
  /// Writes the word when all before it is done.
  virtual void write(uint64_t at, uint64_t value) = 0;
  /// Begins what is not yet begun.
  virtual void flush() = 0;
};

}  // namespace tutti::exec::gpu
