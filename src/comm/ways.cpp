#include "comm/ways.hpp"

#include "base/env.hpp"
#include "plan/plan.hpp"
#include "transports/link.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

/// Bytes that a rank's input or output has.
uint64_t bytes_of(const CallSpec& spec, Rank ranks, plan::Buffer buffer) {
  return plan::blocks(spec.collective, ranks, buffer, 0) * spec.count * size_of(spec.type);
}

/// Should results be stored past the cache? Where all that the call touches would not stay there anyway: as measured
/// with two ranks and 36 MiB of cache (bench/results/tried.md). In place a result is there already, being the input;
/// but for a broadcast, which only its root reads.
bool streams(const CallSpec& spec, Rank ranks, bool in_place) {
  if (in_place && spec.collective != Collective::Broadcast) return false;
  const uint64_t each =
      bytes_of(spec, ranks, plan::Buffer::Output) + (in_place ? 0 : bytes_of(spec, ranks, plan::Buffer::Input));
  return each * static_cast<uint64_t>(ranks) >= (spec.collective == Collective::AllReduce ? 16 : 32) * kMiB;
}

/// Should processes read each other's blocks through the kernel? One copy instead of two, but a slower one, and out of
/// the cache of the core that wrote it. As measured with fresh data it pays from some size of a block on: a larger one
/// where blocks are folded (never where ranks share cores), and where all ranks read the same ones only while all of
/// them stay in the cache. Of a broadcast both ends copy (transports/help.hpp): as measured with two ranks.
bool pulls(const CallSpec& spec, Rank ranks, const Terms& terms) {
  if (terms.always_pull) return true;
  const bool crowded = terms.crowded;
  const uint64_t block = spec.count * size_of(spec.type), all = block * static_cast<uint64_t>(ranks);
  switch (spec.collective) {
    case Collective::AllToAll:
      return block >= (crowded ? 64 * kKiB : 256 * kKiB);
    case Collective::Gather:
    case Collective::Scatter:
      return block >= 64 * kKiB;
    case Collective::AllGather:
      return block >= 256 * kKiB && all <= 12 * kMiB;
    case Collective::ReduceScatter:
      return !crowded && block >= kMiB && all <= 32 * kMiB;
    case Collective::Broadcast:
      return ranks == 2 && !crowded && block >= 3 * kMiB;
    default:
      return false;
  }
}

/// Should peers read and write a call's buffers where they are, if those are shared memory? Short blocks that have just
/// been written are had sooner, where they are reduced to all or broadcast, out of staging memory, whose lines are
/// where they were the last time. As measured with fresh data and two ranks (bench/results/tried.md); of the same data
/// again and again, reading in place takes a third of the time.
bool shares(const CallSpec& spec) {
  if (env().cma == Cma::Always) return true;
  const uint64_t block = spec.count * size_of(spec.type);
  if (spec.collective == Collective::AllReduce) return block >= 32 * kKiB;
  if (spec.collective == Collective::Broadcast) return block >= 64 * kKiB;
  return true;
}

/// From what length of a message on may ranks fold straight into each other's results?
uint64_t place_from(const CallSpec& spec, bool in_place) {
  // In place, but for an all-reduce, a rank's input and output do not begin at the same address.
  if (!reduces(spec.collective) || (in_place && spec.collective != Collective::AllReduce))
    return transports::kNeverLend;
  return env().cma == Cma::Always ? 1 : transports::kLendFrom;
}

}  // namespace

Ways ways_of(const CallSpec& spec, Rank ranks, const Terms& terms, bool in_place) {
  return {.pull = pulls(spec, ranks, terms),
          .share = shares(spec),
          .place_from = place_from(spec, in_place),
          .stream = streams(spec, ranks, in_place)};
}

}  // namespace tutti::comm
