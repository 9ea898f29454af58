#include "comm/delivery_rules.hpp"

#include <algorithm>

#include "plan/plan.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

/// Bytes that a call touches on a host with `near` of its ranks, the root (if any) among them.
uint64_t bytes_touched(const CallSpec& spec, Rank ranks, Rank near, bool in_place) {
  const auto of = [&](Rank rank) -> uint64_t {
    const uint64_t in = plan::blocks(spec.collective, ranks, plan::Buffer::Input, rank);
    const uint64_t out = plan::blocks(spec.collective, ranks, plan::Buffer::Output, rank);
    return in_place ? std::max(in, out) : in + out;
  };
  const uint64_t blocks = of(0) + (near > 1 ? static_cast<uint64_t>(near - 1) * of(1) : 0);
  return blocks * spec.count * size_of(spec.type);
}

/// True if processes read each other's blocks by CMA: one copy instead of two, but a slower one, and not from the cache
/// of the core that wrote the block. With fresh data it pays from a certain block size on, which is larger if blocks
/// are folded (never when oversubscribed). If all ranks read the same blocks, it pays only while all blocks stay in the
/// cache. In a broadcast both ends copy (link/cooperative_copy.hpp); measured with two ranks.
bool reads_by_cma(const CallSpec& spec, Rank ranks, const AgreedCapabilities& agreed) {
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

/// True if peers read and write a call's buffers in place, if these are shared memory. For small, freshly written
/// blocks of an all-reduce or broadcast, staging is faster: its cache lines stay in the same place. Measured with fresh
/// data and two ranks (bench/results/tried.md). If the data is the same in every call, reading in place takes a third
/// of the time.
bool shares_buffers(const CallSpec& spec) {
  const uint64_t block = spec.count * size_of(spec.type);
  if (spec.collective == Collective::AllReduce) return block >= 32 * kKiB;
  if (spec.collective == Collective::Broadcast) return block >= 64 * kKiB;
  return true;
}

}  // namespace

exec::DeliveryRules delivery_rules_for(const CallSpec& spec, Rank ranks, const AgreedCapabilities& agreed) {
  if (agreed.always_cma)
    return {.address_from = link::kZcopyFrom, .mapped_from = 0, .cma_from = 0, .direct_store_from = 1};
  return {.address_from = link::kZcopyFrom,
          .mapped_from = shares_buffers(spec) ? link::kZcopyFrom : link::kNever,
          .cma_from = reads_by_cma(spec, ranks, agreed) ? link::kZcopyFrom : link::kNever,
          .direct_store_from = link::kZcopyFrom};
}

exec::DeliveryRules delivery_rules_for_transfers(const AgreedCapabilities& agreed) {
  constexpr uint64_t kCmaFrom = 64 * kKiB;  // below, staging's two copies are cheaper than one by the kernel
  return {.address_from = link::kZcopyFrom, .cma_from = agreed.always_cma ? 0 : kCmaFrom};
}

// Measured with two ranks and 36 MiB of cache (bench/results/tried.md). Never over the input of an in-place call.
bool is_nontemporal(const CallSpec& spec, Rank ranks, Rank near, bool in_place) {
  const bool stores_elsewhere = spec.collective == Collective::Broadcast || spec.collective == Collective::AllGather ||
                                spec.collective == Collective::Gather;
  if (in_place && !stores_elsewhere) return false;
  return bytes_touched(spec, ranks, near, in_place) >= (spec.collective == Collective::AllReduce ? 16 : 32) * kMiB;
}

}  // namespace tutti::comm
