// A stream on which copies are enqueued, and words that it waits for and writes. Neighbouring words are enqueued
// together: one item of the stream, one node of a graph.
#pragma once

#include <array>
#include <cstdint>

#include "transports/cuda/driver.hpp"

namespace tutti::exec::cuda {

class CopyStream {
 public:
  explicit CopyStream(CUstream stream) : stream_(stream) {}
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// What follows waits until the word at `at` is at least `value`.
  void wait(CUdeviceptr at, uint32_t value) {
    next().waitValue = {
        .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = at, .value = value, .flags = CU_STREAM_WAIT_VALUE_GEQ};
  }
  /// The same of a word of 8 bytes; `flags`: beside the comparison.
  void wait_long(CUdeviceptr at, uint64_t value, unsigned flags) {
    next().waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
                        .address = at,
                        .value64 = value,
                        .flags = CU_STREAM_WAIT_VALUE_GEQ | flags};
  }
  /// Writes the word when all before it is done. A thread or stream that reads it sees all of that.
  void write(CUdeviceptr at, uint32_t value) {
    next().writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                         .address = at,
                         .value = value,
                         .flags = CU_STREAM_WRITE_VALUE_DEFAULT};
  }
  void write_long(CUdeviceptr at, uint64_t value) {
    next().writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                         .address = at,
                         .value64 = value,
                         .flags = CU_STREAM_WRITE_VALUE_DEFAULT};
  }
  void copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    if (bytes == 0 || to == from) return;
    flush();
    tutti::cuda::check(tutti::cuda::driver().cuMemcpyAsync(to, from, bytes, stream_),
                       "memory of the GPU cannot be copied");
  }
  /// Enqueues what is not yet. At the end.
  void flush() {
    if (count_ == 0) return;
    const uint32_t count = count_;
    count_ = 0;
    tutti::cuda::check(tutti::cuda::driver().cuStreamBatchMemOp(stream_, count, operations_.data(), 0),
                       "the stream cannot wait for another rank");
  }

 private:
  CUstreamBatchMemOpParams& next() {
    if (count_ == operations_.size()) flush();
    CUstreamBatchMemOpParams& operation = operations_[count_++];
    operation = {};
    return operation;
  }

  const CUstream stream_;
  std::array<CUstreamBatchMemOpParams, 128> operations_;  // the driver takes 256
  uint32_t count_ = 0;
};

}  // namespace tutti::exec::cuda
