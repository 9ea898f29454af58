#include "exec/host/cooperative_copy.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "exec/host/host_policies.hpp"
#include "link/cma.hpp"
#include "link/host_memory.hpp"
#include "link/mapped_memory.hpp"
#include "reduce/fold.hpp"

namespace tutti::exec {
namespace {

using link::CooperativeWriter;
using link::HostCooperativeWire;
using link::Offered;
using link::OutLink;
using link::Route;

/// Where this process finds the destination of what is offered; null where the bytes go through the kernel, or where
/// they cannot (`reachable` says which).
unsigned char* destination(const OutLink& out, const Offered& offered, bool& reachable) {
  const CooperativeWriter& helping = *out.helping;
  reachable = false;
  int error = 0;
  unsigned char* found = nullptr;
  switch (static_cast<Route>(offered.way & ~(link::kStreamed | link::kAhead))) {
    case Route::Address:  // a link without an arena has both its ends in one process
      if (out.arena == nullptr) found = reinterpret_cast<unsigned char*>(offered.place);
      break;
    case Route::Shared:
      if (helping.mappings != nullptr && offered.region != 0)
        found = helping.mappings->find(offered.region, offered.place, offered.lent.bytes, error);
      break;
    case Route::Push:
      reachable = helping.process != 0 && offered.region != 0;  // the gate, else it would not be safe
      return nullptr;
    case Route::None:
      break;
  }
  reachable = found != nullptr;
  return found;
}

/// Copies these tiles, but for what the reader copies itself. 0, or an errno.
int copy(const OutLink& out, const Offered& offered, unsigned char* to, const link::Tiles& tiles) {
  const uint64_t tile = link::tile_of(offered.lent.bytes);
  const uint64_t at = std::max<uint64_t>(tiles.first * tile, offered.trim.front);
  const uint64_t end = std::min((tiles.first + tiles.count) * tile, offered.lent.bytes - offered.trim.back);
  if (at >= end) return 0;
  const unsigned char* const from = offered.lent.data + at;
  if (to == nullptr) {
    auto* const there = reinterpret_cast<unsigned char*>(offered.place + at);
    return link::cma_write(out.helping->process, from, there, end - at, offered.region);
  }
  copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), end - at,
             (offered.way & link::kStreamed) != 0);
  return 0;
}

bool help(OutLink& out) {
  Offered offered;
  if (!HostCooperativeWire::look(out, offered)) return false;
  bool reachable = false;
  unsigned char* const to = destination(out, offered, reachable);
  link::Tiles tiles;
  if (!reachable) {
    out.helping->given_up = offered.lent.number;
    return false;
  }
  if (!HostCooperativeWire::claim(out, offered, tiles)) return false;
  if (copy(out, offered, to, tiles) != 0) {
    HostCooperativeWire::withdraw(out);
    out.helping->stopped = true;
    return false;
  }
  HostCooperativeWire::finish(out);
  return true;
}

}  // namespace

bool help_copy(std::span<OutLink> outs) {
  return std::any_of(outs.begin(), outs.end(), [](OutLink& out) {
    return out.acked < out.lent && out.helping != nullptr && !out.helping->stopped && help(out);
  });
}

void HostFold::claim_places(RankState& rank, LaneState& lane, const Instruction& op) {
  // All are found before any is claimed: to map memory is to ask its owner, and who holds a claim must not wait.
  uint32_t found = 0;
  for (uint32_t i = op.outs.begin; i < op.outs.end && found < kMostDirectStores; ++i) {
    const uint32_t number = lane.tables->outs[i];
    OutLink& out = rank.out[number];
    Offered offered;
    if (out.helping == nullptr || out.helping->unplaced) continue;
    if (!HostCooperativeWire::look_ahead(out, rank.tag ^ op.salt, op.bytes, op.had, offered)) continue;
    bool reachable = false;
    unsigned char* const to = destination(out, offered, reachable);
    if (to == nullptr) {  // for good, or every fold would ask for that memory again
      out.helping->unplaced = true;
      log_info("rank {}'s memory cannot be reached: it copies results itself", out.peer);
      continue;
    }
    lane.places[found] = to;
    lane.trims[found] = offered.trim;
    lane.placed_out[found++] = number;
  }
  lane.placed = 0;
  for (uint32_t i = 0; i < found; ++i) {
    if (!HostCooperativeWire::claim_all(rank.out[lane.placed_out[i]], op.bytes)) continue;
    lane.places[lane.placed] = lane.places[i];
    lane.trims[lane.placed] = lane.trims[i];
    lane.placed_out[lane.placed++] = lane.placed_out[i];
  }
}

void HostFold::finish_places(RankState& rank, LaneState& lane) {
  for (uint32_t i = 0; i < lane.placed; ++i) HostCooperativeWire::finish(rank.out[lane.placed_out[i]]);
  lane.placed = 0;
}

}  // namespace tutti::exec
