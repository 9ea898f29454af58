// The upper bound: every collective through memory that all ranks share, without a second copy.
//
// Each rank reads other ranks' inputs in place and writes outputs in place: the fewest bytes, on all cores, with the
// fastest copy and fold loops. If there are more ranks than owners of the data (all-reduce, reduce, broadcast), each
// rank takes an n-th of the buffer. One barrier per call tells that outputs are complete and inputs are free; if inputs
// change between calls, a second one before the call tells that they are complete. No library can do this with memory
// that only one process can reach, so it is a bound, not a competitor.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "collective.hpp"
#include "driver_pipes.hpp"
#include "reduce/fold.hpp"

namespace peers {

/// Created by the first process, before it forks.
class SharedMemory {
 public:
  static constexpr size_t kLargest = (size_t{256} << 20) + 4096;

  /// Two buffers for each rank. Pages are allocated when they are touched.
  explicit SharedMemory(int ranks) {
    const size_t bytes = kHeader + 2 * static_cast<size_t>(ranks) * kStride;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("mmap");
      std::exit(2);
    }
    base_ = static_cast<std::byte*>(memory);
  }

  std::atomic<uint64_t>& flag(int rank) const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(base_ + static_cast<size_t>(rank) * 256);
  }
  /// Buffer 0 or 1 of a rank.
  std::byte* buffer(int rank, int which) const {
    return base_ + kHeader + (2 * static_cast<size_t>(rank) + static_cast<size_t>(which)) * kStride;
  }
  /// Frees the pages.
  static void forget(void* buffer) { madvise(buffer, kStride, MADV_REMOVE); }

 private:
  static constexpr size_t kHeader = size_t{2} << 20, kStride = size_t{258} << 20;
  std::byte* base_ = nullptr;
};

/// sum[i] = a[i] + b[i].
inline void add(float* sum, const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

class DirectPeer {
 public:
  /// `stream`: outputs are stored past the cache.
  DirectPeer(const SharedMemory& memory, int rank, int ranks, bool stream)
      : memory_(memory),
        rank_(rank),
        ranks_(ranks),
        stream_(stream),
        oversubscribed_(ranks > cores()),
        sum_(tutti::fold_function(tutti::DType::F32, tutti::Op::Sum)) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  void inputs_change(bool change) { inputs_change_ = change; }

  /// First the rank's input, then its output.
  float* allocate(size_t count) {
    if (count * sizeof(float) > SharedMemory::kLargest) std::exit(2);
    return reinterpret_cast<float*>(memory_.buffer(rank_, given_++));
  }
  void release(float* buffer) {
    SharedMemory::forget(buffer);
    --given_;
  }

  float* prepare(const Shape& shape, float* in, float* out) {
    shape_ = shape;
    return shape.what == Collective::Broadcast ? in : out;
  }

  void barrier() {
    const uint64_t epoch = ++epoch_;
    const bool oversubscribed = oversubscribed_;
    memory_.flag(rank_).store(epoch, std::memory_order_release);
    for (int k = 1; k < ranks_; ++k) {
      const std::atomic<uint64_t>& flag = memory_.flag((rank_ + k) % ranks_);
      while (flag.load(std::memory_order_acquire) < epoch) {
        if (oversubscribed) sched_yield();
      }
    }
  }

  void call() {
    if (inputs_change_) barrier();
    exchange();
    barrier();
  }

 private:
  std::byte* in(int rank) const { return memory_.buffer(rank, 0); }
  std::byte* out(int rank) const { return memory_.buffer(rank, 1); }

  void exchange() {
    const size_t block = shape_.block() * sizeof(float), mine = shape_.begin_of(rank_) * sizeof(float);
    const size_t whole = shape_.count * sizeof(float);
    const bool few = whole <= 4096;  // bytes: below, moving a line between cores costs more than reading all inputs
    switch (shape_.what) {
      case Collective::AllReduce:
        if (few) return fold_few(0, whole, out(rank_));   // each rank folds everything for itself
        return fold_tiles(mine, block, mine, 0, ranks_);  // each rank folds its n-th into all outputs
      case Collective::Reduce:
        if (few) return rank_ == 0 ? fold_few(0, whole, out(0)) : void();
        return fold_tiles(mine, block, mine, 0, 1);
      case Collective::ReduceScatter:
        if (few) return fold_few(mine, block, out(rank_));
        return fold_tiles(mine, block, 0, rank_, rank_ + 1);
      case Collective::AllGather:
        for (int k = 0; k < ranks_; ++k) {
          const int source = (rank_ + k) % ranks_;
          copy(out(rank_) + static_cast<size_t>(source) * block, in(source), block);
        }
        return;
      case Collective::AllToAll:
        for (int k = 0; k < ranks_; ++k) {
          const int source = (rank_ + k) % ranks_;
          copy(out(rank_) + static_cast<size_t>(source) * block, in(source) + mine, block);
        }
        return;
      case Collective::Broadcast:
        if (few) {  // each rank copies for itself
          if (rank_ != 0) copy(in(rank_), in(0), whole);
          return;
        }
        // Each rank copies its n-th to all.
        for (int target = 1; target < ranks_; ++target) copy(in(target) + mine, in(0) + mine, block);
        return;
      case Collective::Gather:
        return copy(out(0) + mine, in(rank_), block);
      case Collective::Scatter:
        return copy(out(rank_), in(0) + mine, block);
      case Collective::Barrier:
        return;
    }
  }

  void copy(std::byte* to, const std::byte* from, size_t bytes) const {
    if (stream_) {
      tutti::copy_bytes(to, nullptr, from, bytes, true);
    } else {
      __builtin_memcpy(to, from, bytes);
    }
  }

  /// Folds all inputs' few bytes [at, at + bytes) to `to`, by a plain loop: after each wait the branches of a general
  /// loop would be mispredicted.
  void fold_few(size_t at, size_t bytes, std::byte* to) const {
    auto* const sum = reinterpret_cast<float*>(to);
    const auto input = [&](int r) { return reinterpret_cast<const float*>(in(r) + at); };
    if (ranks_ == 1) return copy(to, in(0) + at, bytes);
    add(sum, input(0), input(1), bytes / sizeof(float));
    for (int r = 2; r < ranks_; ++r) add(sum, sum, input(r), bytes / sizeof(float));
  }

  /// Folds all inputs' bytes [at, at + bytes) into bytes [to, …) of the outputs of ranks first … last − 1. Two
  /// destinations are filled in one pass, further ones from the first while it is in the cache.
  void fold_tiles(size_t at, size_t bytes, size_t to, int first, int last) const {
    const size_t tile = last - first > 2 ? size_t{16} << 10 : bytes;
    for (size_t done = 0; done < bytes; done += tile) {
      const size_t now = std::min(tile, bytes - done);
      const std::byte* sources[64];
      for (int r = 0; r < ranks_; ++r) sources[r] = in(r) + at + done;
      std::byte* const second = last - first > 1 ? out(first + 1) + to + done : nullptr;
      const bool alone = last - first <= 2;
      sum_({.dst = out(first) + to + done,
            .dst2 = second,
            .sources = sources,
            .source_count = static_cast<uint32_t>(ranks_),
            .count = now / sizeof(float),
            .shape = tutti::FoldShape::Left,
            .stream = stream_ && alone,
            .round_each = false,
            .divide_by = 0,
            .scaled_source = -1,
            .scale = nullptr});
      for (int r = first + 2; r < last; ++r) copy(out(r) + to + done, out(first) + to + done, now);
    }
  }

  const SharedMemory& memory_;
  int rank_, ranks_;
  bool stream_, oversubscribed_, inputs_change_ = true;
  tutti::FoldFn sum_;
  uint64_t epoch_ = 0;
  int given_ = 0;
  Shape shape_;
};

}  // namespace peers
