// The calls that every program of the comparison makes: the collectives, the shapes of their buffers, and the data for
// checking results.
//
// S is nccl-tests' size: of the whole buffer that a collective divides (all-gather, gather: the output; reduce-scatter,
// scatter: the input; all-to-all: what a rank sends), of the one buffer for the others. Elements are floats, sums are
// exact, the root is rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace peers {

enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, Gather, Scatter, Barrier };
inline constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                                         "reduce",     "gather",     "scatter",        "barrier"};
inline constexpr int kCollectives = sizeof kNames / sizeof *kNames;

/// kCollectives if there is no such collective.
inline int index_of(const std::string& name) {
  int i = 0;
  while (i < kCollectives && name != kNames[i]) ++i;
  return i;
}

/// One rank's view of a call. Counts are in floats.
struct Shape {
  Collective what = Collective::Barrier;
  size_t count = 0;  ///< S / 4, a multiple of `ranks`
  int ranks = 1, rank = 0;

  size_t block() const { return count / static_cast<size_t>(ranks); }
  /// The offset of rank r's block in a divided buffer.
  size_t begin_of(int r) const { return static_cast<size_t>(r) * block(); }
  bool root() const { return rank == 0; }

  size_t input_count() const {
    switch (what) {
      case Collective::AllGather:
      case Collective::Gather:
        return block();
      case Collective::Broadcast:
      case Collective::Scatter:
        return root() ? count : 0;
      case Collective::Barrier:
        return 0;
      default:
        return count;
    }
  }

  size_t output_count() const {
    switch (what) {
      case Collective::ReduceScatter:
      case Collective::Scatter:
        return block();
      case Collective::Reduce:
      case Collective::Gather:
        return root() ? count : 0;
      case Collective::Broadcast:
        return root() ? 0 : count;  // in place: the root's input is the others' output
      case Collective::Barrier:
        return 0;
      default:
        return count;
    }
  }
};

/// Element i of rank `source`'s input: small integers, different in neighbours, ranks and blocks.
inline float value_of(int source, size_t i) {
  const auto k = static_cast<uint32_t>(i);  // 32 bits, so that compilers vectorize it
  return static_cast<float>(3 * (source + 1)) + static_cast<float>((k ^ (k >> 7)) % 5);
}

/// The expected element i of this rank's output.
inline float expected(const Shape& shape, size_t i) {
  const auto sum = [&](size_t at) {
    float total = 0;
    for (int r = 0; r < shape.ranks; ++r) total += value_of(r, at);
    return total;
  };
  switch (shape.what) {
    case Collective::AllReduce:
    case Collective::Reduce:
      return sum(i);
    case Collective::ReduceScatter:
      return sum(shape.begin_of(shape.rank) + i);
    case Collective::AllGather:
    case Collective::Gather:
      return value_of(static_cast<int>(i / shape.block()), i % shape.block());
    case Collective::AllToAll:
      return value_of(static_cast<int>(i / shape.block()), shape.begin_of(shape.rank) + i % shape.block());
    case Collective::Scatter:
      return value_of(0, shape.begin_of(shape.rank) + i);
    default:
      return value_of(0, i);
  }
}

}  // namespace peers
