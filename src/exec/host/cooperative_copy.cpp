#include "exec/host/cooperative_copy.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "exec/host/host_lane.hpp"
#include "exec/host/remote_access.hpp"
#include "link/cma.hpp"
#include "link/host_memory.hpp"
#include "link/mapped_memory.hpp"
#include "reduce/fold.hpp"

namespace tutti::exec {
namespace {

using link::HostCooperativeWire;
using link::HostWriter;
using link::OfferCopy;
using link::OutLink;
using link::Route;

/// The address of the offered destination in this process. Null if the bytes go by CMA (`reachable`), or not at all.
unsigned char* destination(const OutLink& out, const OfferCopy& offered, bool& reachable) {
  const HostWriter& writer = *out.host;
  reachable = false;
  int error = 0;
  unsigned char* found = nullptr;
  switch (static_cast<Route>(offered.route & ~(link::kNontemporal | link::kEarly))) {
    case Route::Address:  // a link without an arena has both ends in one process
      if (out.arena == nullptr) found = reinterpret_cast<unsigned char*>(offered.target);
      break;
    case Route::Mapped:
      if (writer.mappings != nullptr && offered.region != 0)
        found = writer.mappings->find(offered.region, offered.target, offered.message.bytes, error);
      break;
    case Route::CmaWrite:
      reachable =
          writer.process != 0 && offered.region != 0;  // `region` is the gate, without which the write is not safe
      return nullptr;
    case Route::None:
      break;
  }
  reachable = found != nullptr;
  return found;
}

/// Copies these tiles, except for the edges of the message. 0, or an errno.
int copy(const OutLink& out, const OfferCopy& offered, unsigned char* to, const link::Tiles& tiles) {
  const uint64_t tile = link::tile_of(offered.message.bytes);
  const uint64_t at = std::max<uint64_t>(tiles.first * tile, offered.edges.front);
  const uint64_t end = std::min((tiles.first + tiles.count) * tile, offered.message.bytes - offered.edges.back);
  if (at >= end) return 0;
  const unsigned char* const from = offered.message.data + at;
  if (to == nullptr) {
    auto* const there = reinterpret_cast<unsigned char*>(offered.target + at);
    return link::cma_write(out.host->process, from, there, end - at, offered.region);
  }
  copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), end - at,
             (offered.route & link::kNontemporal) != 0);
  return 0;
}

bool copy_for_reader(OutLink& out) {
  OfferCopy offered;
  if (!HostCooperativeWire::find_offer(out, offered)) return false;
  bool reachable = false;
  unsigned char* const to = destination(out, offered, reachable);
  link::Tiles tiles;
  if (!reachable) {
    out.host->unreachable = offered.message.number;
    return false;
  }
  if (!HostCooperativeWire::claim_back(out, offered, tiles)) return false;
  if (copy(out, offered, to, tiles) != 0) {
    HostCooperativeWire::withdraw(out);
    out.host->stopped = true;
    return false;
  }
  HostCooperativeWire::finish(out);
  return true;
}

}  // namespace

bool copy_for_readers(OutLink* outs, std::span<const uint32_t> numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [outs](uint32_t number) {
    OutLink& out = outs[number];
    return out.acked < out.zcopied && out.host != nullptr && !out.host->stopped && copy_for_reader(out);
  });
}

void HostRemoteAccess::find_direct_stores(RankState& rank, LaneState& lane, const Instruction& op) {
  HostLane& mine = *lane.host;
  mine.direct_stores = 0;
  for (uint32_t i = op.outs.begin; i < op.outs.end && mine.direct_stores < kMaxDirectStores; ++i) {
    const uint32_t number = lane.tables->outs[i].link;
    OutLink& out = rank.out[number];
    OfferCopy offered;
    if (out.host == nullptr || out.host->no_direct_stores) continue;
    if (!HostCooperativeWire::find_early_offer(out, rank.tag ^ op.salt, op.bytes, op.direct.received, offered))
      continue;
    bool reachable = false;
    unsigned char* const to = destination(out, offered, reachable);
    if (to == nullptr) {  // permanently, or every fold would try to map that memory again
      out.host->no_direct_stores = true;
      log_info("the memory of rank {} cannot be reached: no direct stores, it copies results itself", out.peer);
      continue;
    }
    mine.direct_to[mine.direct_stores] = to;
    mine.direct_edges[mine.direct_stores] = offered.edges;
    mine.direct_outs[mine.direct_stores++] = number;
  }
}

void HostRemoteAccess::claim_direct_stores(RankState& rank, LaneState& lane, const Instruction& op) {
  HostLane& mine = *lane.host;
  uint32_t claimed = 0;
  for (uint32_t i = 0; i < mine.direct_stores; ++i) {
    if (!HostCooperativeWire::claim_all(rank.out[mine.direct_outs[i]], op.bytes)) continue;
    mine.direct_to[claimed] = mine.direct_to[i];
    mine.direct_edges[claimed] = mine.direct_edges[i];
    mine.direct_outs[claimed++] = mine.direct_outs[i];
  }
  mine.direct_stores = claimed;
}

void HostRemoteAccess::finish_direct_stores(RankState& rank, LaneState& lane) {
  HostLane& mine = *lane.host;
  for (uint32_t i = 0; i < mine.direct_stores; ++i) HostCooperativeWire::finish(rank.out[mine.direct_outs[i]]);
  mine.direct_stores = 0;
}

}  // namespace tutti::exec
