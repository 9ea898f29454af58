#include "comm/delivery_rules.hpp"

#include <algorithm>

#include "plan/plan.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {
namespace {

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

/// A length of the table from which CMA pays, as this machine's figures shift it: one copy by the kernel, held against
/// two out of the cache.
uint64_t by_cma(uint64_t bytes, const AgreedCapabilities& agreed) {
  return agreed.shifts.no_cma ? link::kNever : select::shifted(bytes, agreed.shifts.cma);
}
/// A length beside which waiting for another rank is short.
uint64_t by_wait(uint64_t bytes, const AgreedCapabilities& agreed) {
  return select::shifted(bytes, agreed.shifts.wait);
}
/// A length that stays in the cache.
uint64_t by_caches(uint64_t bytes, const AgreedCapabilities& agreed) {
  return select::shifted(bytes, agreed.shifts.caches);
}

/// True if processes read each other's blocks by CMA: one copy instead of two, but a slower one, and not from the cache
/// of the core that wrote the block. With fresh data it pays from a certain block size on, which is larger if blocks
/// are folded (never when oversubscribed). If all ranks read the same blocks, it pays only while all blocks stay in the
/// cache. In a broadcast both ends copy (link/cooperative_copy.hpp).
bool reads_by_cma(const CallSpec& spec, Rank ranks, const AgreedCapabilities& agreed) {
  const bool oversubscribed = agreed.oversubscribed;
  const uint64_t block = spec.count * size_of(spec.type), all = block * static_cast<uint64_t>(ranks);
  switch (spec.collective) {
    case Collective::AllToAll:
      // Ranks that share cores wait for each other at each of the two copies: one is better even if it is slow.
      return block >= (oversubscribed ? machine_constants().cma_all_to_all_oversubscribed_from
                                      : by_cma(machine_constants().cma_all_to_all_from, agreed));
    case Collective::Gather:
    case Collective::Scatter:
      return block >= by_cma(machine_constants().cma_gather_from, agreed);
    case Collective::AllGather:
      return block >= by_cma(machine_constants().cma_all_gather_from, agreed) &&
             all <= by_caches(machine_constants().cma_all_gather_up_to, agreed);
    case Collective::ReduceScatter:
      return !oversubscribed && block >= by_cma(machine_constants().cma_reduce_scatter_from, agreed) &&
             all <= by_caches(machine_constants().cma_reduce_scatter_up_to, agreed);
    case Collective::Broadcast:
      return ranks == 2 && !oversubscribed && block >= by_cma(machine_constants().cma_broadcast_from, agreed);
    default:
      return false;
  }
}

/// True if peers read and write a call's buffers in place, if these are shared memory. For small, freshly written
/// blocks of an all-reduce or broadcast, staging is faster: its cache lines stay in the same place. (If the
/// data is the same in every call, reading in place takes a third of the time.)
bool shares_buffers(const CallSpec& spec) {
  const uint64_t block = spec.count * size_of(spec.type);
  if (spec.collective == Collective::AllReduce) return block >= machine_constants().mapped_all_reduce_from;
  if (spec.collective == Collective::Broadcast) return block >= machine_constants().mapped_broadcast_from;
  return true;
}

}  // namespace

uint64_t zcopy_from(const AgreedCapabilities& agreed) { return by_wait(machine_constants().zcopy_from, agreed); }

uint64_t cooperative_from(const AgreedCapabilities& agreed) {
  return by_wait(machine_constants().cooperative_from, agreed);
}

exec::DeliveryRules delivery_rules_for(const CallSpec& spec, Rank ranks, const AgreedCapabilities& agreed) {
  const uint64_t at_address = zcopy_from(agreed), from = machine_constants().zcopy_from;
  if (agreed.always_cma) return {.address_from = at_address, .mapped_from = 0, .cma_from = 0, .direct_store_from = 1};
  return {.address_from = at_address,
          .mapped_from = shares_buffers(spec) ? from : link::kNever,
          .cma_from = reads_by_cma(spec, ranks, agreed) ? from : link::kNever,
          .direct_store_from = from};
}

exec::DeliveryRules delivery_rules_for_transfers(const AgreedCapabilities& agreed) {
  return {.address_from = zcopy_from(agreed),
          .cma_from = agreed.always_cma ? 0 : by_cma(machine_constants().cma_transfer_from, agreed)};
}

// Never over the input of an in-place call.
bool is_nontemporal(const CallSpec& spec, Rank ranks, Rank near, bool in_place) {
  const bool stores_elsewhere = spec.collective == Collective::Broadcast || spec.collective == Collective::AllGather ||
                                spec.collective == Collective::Gather;
  if (in_place && !stores_elsewhere) return false;
  const uint64_t caches = std::min<uint64_t>(static_cast<uint64_t>(near), machine_constants().last_caches);
  return bytes_touched(spec, ranks, near, in_place) >= caches * (spec.collective == Collective::AllReduce
                                                                     ? machine_constants().nontemporal_all_reduce_from
                                                                     : machine_constants().nontemporal_from);
}

}  // namespace tutti::comm
