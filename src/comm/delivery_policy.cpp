#include "comm/delivery_policy.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "plan/plan.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

/// Bytes that a call touches on a host with so many of its ranks, the root (if any) among them.
uint64_t touched(const CallSpec& spec, Rank ranks, Rank near, bool in_place) {
  const auto of = [&](Rank rank) -> uint64_t {
    const uint64_t in = plan::blocks(spec.collective, ranks, plan::Buffer::Input, rank);
    const uint64_t out = plan::blocks(spec.collective, ranks, plan::Buffer::Output, rank);
    return in_place ? std::max(in, out) : in + out;
  };
  const uint64_t blocks = of(0) + (near > 1 ? static_cast<uint64_t>(near - 1) * of(1) : 0);
  return blocks * spec.count * size_of(spec.type);
}

/// Should results be stored past the cache? Where all that the call touches would not stay there anyway: as measured
/// with two ranks and 36 MiB of cache (bench/results/tried.md). But not over the input, in place.
bool is_nontemporal(const CallSpec& spec, Rank ranks, Rank near, bool in_place) {
  const bool apart = spec.collective == Collective::Broadcast || spec.collective == Collective::AllGather ||
                     spec.collective == Collective::Gather;
  if (in_place && !apart) return false;
  return touched(spec, ranks, near, in_place) >= (spec.collective == Collective::AllReduce ? 16 : 32) * kMiB;
}

/// Should processes read each other's blocks through the kernel? One copy instead of two, but a slower one, and out of
/// the cache of the core that wrote it. As measured with fresh data it pays from some size of a block on: a larger one
/// where blocks are folded (never where ranks share cores), and where all ranks read the same ones only while all of
/// them stay in the cache. Of a broadcast both ends copy (link/cooperative_copy.hpp): as measured with two ranks.
bool pulls(const CallSpec& spec, Rank ranks, const AgreedCapabilities& agreed) {
  if (agreed.always_pull) return true;
  const bool oversubscribed = agreed.oversubscribed;
  const uint64_t block = spec.count * size_of(spec.type), all = block * static_cast<uint64_t>(ranks);
  switch (spec.collective) {
    case Collective::AllToAll:
      return block >= (oversubscribed ? 64 * kKiB : 256 * kKiB);
    case Collective::Gather:
    case Collective::Scatter:
      return block >= 64 * kKiB;
    case Collective::AllGather:
      return block >= 256 * kKiB && all <= 12 * kMiB;
    case Collective::ReduceScatter:
      return !oversubscribed && block >= kMiB && all <= 32 * kMiB;
    case Collective::Broadcast:
      return ranks == 2 && !oversubscribed && block >= 3 * kMiB;
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

}  // namespace

DeliveryPolicy delivery_policy_for(const CallSpec& spec, Rank ranks, Rank near, const AgreedCapabilities& agreed,
                                   bool in_place) {
  return {.pull = pulls(spec, ranks, agreed),
          .share = shares(spec),
          .direct_store_from = env().cma == Cma::Always ? 1 : link::kZcopyFrom,
          .nontemporal = is_nontemporal(spec, ranks, near, in_place)};
}

}  // namespace tutti::comm
