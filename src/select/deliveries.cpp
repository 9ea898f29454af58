#include "select/deliveries.hpp"

#include <algorithm>

#include "plan/plan.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

/// Bytes that a call touches on a host with `near` of its ranks, the root (if any) among them.
uint64_t bytes_touched(Collective collective, uint64_t block, Rank ranks, Rank near, bool in_place) {
  const auto of = [&](Rank rank) -> uint64_t {
    const uint64_t in = plan::blocks(collective, ranks, plan::Buffer::Input, rank);
    const uint64_t out = plan::blocks(collective, ranks, plan::Buffer::Output, rank);
    return in_place ? std::max(in, out) : in + out;
  };
  const uint64_t blocks = of(0) + (near > 1 ? static_cast<uint64_t>(near - 1) * of(1) : 0);
  return blocks * block;
}

/// A length of the table from which CMA pays, as rank 0's figures shift it: one copy by the kernel, held against two
/// out of the cache.
uint64_t by_cma(uint64_t bytes, const HandOver& hand_over) {
  return hand_over.shifts.no_cma ? link::kNever : shifted(bytes, hand_over.shifts.cma);
}
/// A length beside which waiting for another rank is short.
uint64_t by_wait(uint64_t bytes, const HandOver& hand_over) { return shifted(bytes, hand_over.shifts.wait); }

/// The blocks that processes read from each other by CMA: of `from` bytes and more, and fewer than `below`.
struct CmaBlocks {
  uint64_t from = link::kNever, below = link::kNever;
};

/// One copy by the kernel instead of two, but a slower one, and not from the cache of the core that wrote the block.
/// With fresh data it pays from a certain block size on, which is larger if blocks are folded (never where ranks share
/// cores). If all ranks read the same blocks, it pays only while all blocks stay in the cache. In a broadcast both ends
/// copy (link/cooperative_copy.hpp).
CmaBlocks blocks_by_cma(Collective collective, Rank ranks, const HandOver& hand_over) {
  const auto cached = [&](uint64_t all) {
    return shifted(all, hand_over.shifts.caches) / static_cast<uint64_t>(ranks) + 1;
  };
  switch (collective) {
    case Collective::AllToAll:
      // Ranks that share cores wait for each other at each of the two copies: one is better even if it is slow.
      return {hand_over.shares_cores ? machine_constants().cma_all_to_all_oversubscribed_from
                                     : by_cma(machine_constants().cma_all_to_all_from, hand_over)};
    case Collective::Gather:
    case Collective::Scatter:
      return {by_cma(machine_constants().cma_gather_from, hand_over)};
    case Collective::AllGather:
      return {by_cma(machine_constants().cma_all_gather_from, hand_over),
              cached(machine_constants().cma_all_gather_up_to)};
    case Collective::ReduceScatter:
      if (hand_over.shares_cores || hand_over.shifts.no_cma_folds) return {};
      return {by_cma(machine_constants().cma_reduce_scatter_from, hand_over),
              cached(machine_constants().cma_reduce_scatter_up_to)};
    case Collective::Broadcast:
      if (ranks != 2 || hand_over.shares_cores) return {};
      return {by_cma(machine_constants().cma_broadcast_from, hand_over)};
    default:
      return {};
  }
}

/// From what block size on peers read and write a call's buffers in place, if these are shared memory. For small,
/// freshly written blocks of an all-reduce or broadcast, staging is faster: its cache lines stay in the same place. (If
/// the data is the same in every call, reading in place takes a third of the time.)
uint64_t mapped_blocks_from(Collective collective) {
  if (collective == Collective::AllReduce) return machine_constants().mapped_all_reduce_from;
  if (collective == Collective::Broadcast) return machine_constants().mapped_broadcast_from;
  return 0;
}

/// Both ends of a message copy, where every rank has a core of its own, also while it waits.
uint64_t cooperative_from(const HandOver& hand_over) {
  return hand_over.shares_cores ? link::kNever : by_wait(machine_constants().cooperative_from, hand_over);
}

}  // namespace

uint64_t zcopy_from(const HandOver& hand_over) { return by_wait(machine_constants().zcopy_from, hand_over); }

exec::DeliveryRules deliveries_of(Collective collective, uint64_t block, Rank ranks, const HandOver& hand_over) {
  const uint64_t at_address = zcopy_from(hand_over), from = machine_constants().zcopy_from;
  const uint64_t cooperative = cooperative_from(hand_over);
  if (hand_over.always_cma) {
    return {.address_from = at_address,
            .mapped_from = 0,
            .cma_from = 0,
            .cooperative_from = cooperative,
            .direct_store_from = 1};
  }
  const CmaBlocks cma = blocks_by_cma(collective, ranks, hand_over);
  return {.address_from = at_address,
          .mapped_from = block >= mapped_blocks_from(collective) ? from : link::kNever,
          .cma_from = block >= cma.from && block < cma.below ? from : link::kNever,
          .cooperative_from = cooperative,
          .direct_store_from = from};
}

std::vector<uint64_t> delivery_steps(Collective collective, Rank ranks, const HandOver& hand_over) {
  if (hand_over.always_cma) return {};
  const CmaBlocks cma = blocks_by_cma(collective, ranks, hand_over);
  return {cma.from, cma.below, mapped_blocks_from(collective)};
}

exec::DeliveryRules deliveries_of_transfers(const HandOver& hand_over) {
  return {.address_from = zcopy_from(hand_over),
          .cma_from = hand_over.always_cma ? 0 : by_cma(machine_constants().cma_transfer_from, hand_over),
          .cooperative_from = cooperative_from(hand_over)};
}

// Never over the input of an in-place call.
bool is_nontemporal(Collective collective, uint64_t block, Rank ranks, Rank near, bool in_place, uint64_t last_caches) {
  const bool stores_elsewhere =
      collective == Collective::Broadcast || collective == Collective::AllGather || collective == Collective::Gather;
  if (in_place && !stores_elsewhere) return false;
  const uint64_t caches = std::min<uint64_t>(static_cast<uint64_t>(near), last_caches);
  const uint64_t from = collective == Collective::AllReduce ? machine_constants().nontemporal_all_reduce_from
                                                            : machine_constants().nontemporal_from;
  return bytes_touched(collective, block, ranks, near, in_place) >= caches * from;
}

}  // namespace tutti::select
