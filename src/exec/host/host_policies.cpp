#include "exec/host/host_policies.hpp"

#include <algorithm>
#include <memory>

#include "link/cma.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

using link::HostCooperativeWire;
using link::HostRevokeWire;

constexpr uint64_t kGrain = 4096;  // bytes of a message's tile, at least

/// Memory for the CMA tiles of `messages` messages.
unsigned char* tiles(uint32_t messages) {
  thread_local std::unique_ptr<unsigned char[]> memory;
  thread_local uint64_t room = 0;
  const uint64_t wanted = std::max(machine_constants().cma_tiles, messages * kGrain);
  if (room < wanted) memory.reset(new unsigned char[wanted]), room = wanted;
  return memory.get();
}

/// Offers the destination `to` to the writer of message `in.next + ahead`.
void offer(link::InLink& in, const link::SharedRegion& region, const Instruction& op, unsigned char* to, uint64_t ahead,
           uint64_t tag, uint64_t flags) {
  using link::Route;
  link::Edges edges;
  const auto publish = [&](Route route, uint64_t target, uint64_t id) {
    const uint64_t how = static_cast<uint64_t>(route) | (op.nontemporal ? link::kNontemporal : 0) | flags;
    HostCooperativeWire::offer(in, link::tiles_of(op.bytes), {how, target, id, ahead, tag, op.after, edges});
    in.cooperative_reader.to = to;
    in.cooperative_reader.bytes = op.bytes;
  };
  const auto address = reinterpret_cast<uint64_t>(to);
  if (in.addresses) return publish(Route::Address, address, 0);
  if (region.id != 0) {
    const bool has_interior = link::find_interior(to, op.bytes, region.pages, region.pages_end, edges);
    if (!has_interior && (flags & link::kEarly) != 0) return;
    return publish(has_interior ? Route::Mapped : Route::None, static_cast<uint64_t>(to - region.base), region.id);
  }
  const uint64_t gate = in.process != 0 && in.gate != nullptr ? in.gate->address() : 0;
  publish(gate != 0 ? Route::CmaWrite : Route::None, address, gate);
}

/// The part [from, up_to) of a segment of the lane's instruction.
struct Part {
  uint64_t from = 0, up_to = 0;
};

/// The part of bytes [at, at + bytes) of a message that lies in the interior of direct store `i`.
Part interior(const LaneState& lane, uint32_t i, uint64_t at, uint64_t bytes, uint64_t message) {
  const link::Edges& edges = lane.direct_edges[i];
  const uint64_t begin = std::clamp<uint64_t>(edges.front, at, at + bytes) - at;
  const uint64_t end = std::clamp<uint64_t>(message - edges.back, at, at + bytes) - at;
  return {begin, std::max(begin, end)};
}

/// Folds a tile, and stores it also to the lane's first direct store, if there is one, except for its edges.
void run_direct(const Arithmetic& how, const Instruction& op, Segment tile, unsigned char* to, LaneState& lane) {
  const uint64_t bytes = tile.bytes, at = tile.at;
  const Part direct = lane.direct_stores > 0 ? interior(lane, 0, at, bytes, op.bytes) : Part{};
  const bool past = lane.direct_stores == 1 && op.nontemporal_stores;
  const uint64_t ends[] = {direct.from, direct.up_to, bytes};
  uint64_t done = 0;
  for (const uint64_t end : ends) {
    tile.bytes = end - done;
    if (tile.bytes == 0) continue;
    unsigned char* const slot = done == direct.from && end == direct.up_to ? lane.direct_to[0] + at + done : nullptr;
    HostReduce::run({}, how, op, tile, to + done, slot, lane.pointers, past);
    for (uint32_t k = 0; k < op.sources; ++k) lane.pointers[k] += tile.bytes;
    done = end;
  }
}

/// Copies a folded tile, which is in this core's cache, to the other direct stores.
void copy_to_other_readers(const Instruction& op, uint64_t at, uint64_t bytes, const unsigned char* from,
                           const LaneState& lane) {
  for (uint32_t i = 1; i < lane.direct_stores; ++i) {
    const Part part = interior(lane, i, at, bytes, op.bytes);
    copy_bytes(reinterpret_cast<std::byte*>(lane.direct_to[i] + at + part.from), nullptr,
               reinterpret_cast<const std::byte*>(from + part.from), part.up_to - part.from, false);
  }
}

uint32_t messages_of(const Instruction& op) { return op.arrivals.end - op.arrivals.begin; }

/// Copies the edges of a message that its writer has copied or stored: all but the `taken` tiles that the reader has
/// copied already. 0, or an errno.
int copy_edges(const link::InLink& in, const Instruction& op, unsigned char* to, const LaneState& lane) {
  const auto& [front, back] = in.cooperative_reader.edges;
  const auto copy = [&](uint64_t at, uint64_t bytes) {
    const unsigned char* const from = lane.pointers[0] + at;
    if (const int process = lane.arrivals[0].process) return link::cma_read(process, from, to + at, bytes);
    copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), bytes, false);
    return 0;
  };
  int error = 0;
  if (front > 0 && in.cooperative_reader.taken == 0) error = copy(0, front);
  if (back > 0 && in.cooperative_reader.taken < in.cooperative_reader.tiles && error == 0)
    error = copy(op.bytes - back, back);
  return error;
}

link::InLink& arrival_link(RankState& rank, const LaneState& lane, const Instruction& op, uint32_t i) {
  return rank.in[lane.tables->arrivals[op.arrivals.begin + i]];
}

}  // namespace

uint32_t HostReduce::begin_reads(RankState& rank, const LaneState& lane, const Instruction& op) {
  uint32_t refused = kNone;
  for (uint32_t i = 0; i < messages_of(op); ++i) {
    link::InLink& in = arrival_link(rank, lane, op, i);
    if (in.addresses && !HostRevokeWire::begin_read(in)) refused = i;
  }
  return refused;
}

uint32_t HostReduce::end_reads(RankState& rank, const LaneState& lane, const Instruction& op) {
  uint32_t lost = kNone;
  for (uint32_t i = 0; i < messages_of(op); ++i) {
    link::InLink& in = arrival_link(rank, lane, op, i);
    const link::Arrival& arrival = lane.arrivals[i];
    if (in.addresses) {
      HostRevokeWire::end_read(in);
    } else if ((arrival.process != 0 || arrival.region != 0) && !HostRevokeWire::still_valid(in)) {
      lost = i;
    }
  }
  return lost;
}

void HostReduce::store_direct(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                              LaneState& lane) {
  run_direct(how, op, segment, to, lane);
}

CmaResult HostReduce::run_tiled(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                                unsigned char* slot, const Ref* sources, LaneState& lane) {
  const bool straight = op.sources == 1 && slot == nullptr && (how.scale == nullptr || segment.raw < 0);
  if (straight) return {link::cma_read(lane.arrivals[0].process, lane.pointers[0], to, segment.bytes), 0};
  const uint32_t messages = std::max(1U, messages_of(op));
  const uint64_t most = std::max<uint64_t>(kGrain, machine_constants().cma_tiles / messages / kGrain * kGrain);
  Segment tile = segment;
  for (uint64_t done = 0; done < segment.bytes; done += tile.bytes) {
    tile.bytes = std::min(most, segment.bytes - done);
    unsigned char* room = tiles(messages);
    for (uint32_t k = 0, message = 0; k < op.sources; ++k) {
      if (sources[k].base != Base::Message) continue;
      const link::Arrival& arrival = lane.arrivals[message++];
      if (arrival.process == 0) continue;
      const unsigned char* const from = arrival.data + sources[k].offset + done;
      if (const int error = link::cma_read(arrival.process, from, room, tile.bytes)) return {error, message - 1};
      lane.pointers[k] = room;
      room += most;
    }
    tile.at = segment.at + done;
    if (lane.direct_stores > 0) {
      run_direct(how, op, tile, to, lane);
      copy_to_other_readers(op, tile.at, tile.bytes, to, lane);
    } else {
      run({}, how, op, tile, to, slot, lane.pointers);
      for (uint32_t k = 0; k < op.sources; ++k) lane.pointers[k] += tile.bytes;  // the CMA ones are set again
    }
    if (to != nullptr) to += tile.bytes;
    if (slot != nullptr) slot += tile.bytes;
  }
  return {};
}

void HostReduce::offer_direct_store(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                                    unsigned char* to, uint64_t tag) {
  if (in.cooperative && (in.addresses || region.id != 0)) offer(in, region, op, to, op.ahead, tag, link::kEarly);
}

int HostReduce::copy_next_tile(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                               unsigned char* to, LaneState& lane) {
  using Phase = link::CooperativeReader::Phase;
  if (in.cooperative_reader.phase == Phase::None) offer(in, region, op, to, 0, 0, 0);
  if (op.offers && in.cooperative_reader.phase == Phase::Open)
    HostCooperativeWire::close(in);  // the message has come: the writer has used the offer, or will not
  link::Tiles mine;
  switch (HostCooperativeWire::claim_front(in, mine)) {
    case link::TileStatus::Wait:
      return kWait;
    case link::TileStatus::Done:
      in.cooperative_reader.phase = Phase::None;
      return copy_edges(in, op, to, lane);
    case link::TileStatus::Claimed:
      break;
  }
  const uint64_t tile = link::tile_of(op.bytes), at = mine.first * tile;
  const uint64_t bytes = std::min(mine.count * tile, op.bytes - at);
  const unsigned char* const from = lane.pointers[0] + at;
  if (const int process = lane.arrivals[0].process) return link::cma_read(process, from, to + at, bytes);
  copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), bytes,
             op.nontemporal);
  return 0;
}

}  // namespace tutti::exec
