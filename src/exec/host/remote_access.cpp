#include "exec/host/remote_access.hpp"

#include <algorithm>
#include <memory>

#include "exec/host/host_lane.hpp"
#include "exec/host/host_policies.hpp"
#include "link/cma.hpp"
#include "link/mapped_memory.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

using link::HostCooperativeWire;
using link::HostRevokeWire;
using link::Where;

constexpr uint64_t kGrain = MachineConstants::cma_shortest_tile;

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
    HostCooperativeWire::offer(in, link::tiles_of(op.bytes), {how, target, id, ahead, tag, op.direct.after, edges});
    in.host->cooperative.to = to;
    in.host->cooperative.bytes = op.bytes;
  };
  const auto address = reinterpret_cast<uint64_t>(to);
  if (in.addresses) return publish(Route::Address, address, 0);
  if (region.id != 0) {
    const bool has_interior = link::find_interior(to, op.bytes, region.pages, region.pages_end, edges);
    if (!has_interior && (flags & link::kEarly) != 0) return;
    return publish(has_interior ? Route::Mapped : Route::None, static_cast<uint64_t>(to - region.base), region.id);
  }
  const uint64_t gate = in.cma && in.host->gate != nullptr ? in.host->gate->address() : 0;
  publish(gate != 0 ? Route::CmaWrite : Route::None, address, gate);
}

int process_of(const link::Arrival& arrival) { return static_cast<int>(arrival.id); }

/// The part [from, up_to) of a segment of the lane's instruction.
struct Part {
  uint64_t from = 0, up_to = 0;
};

/// The part of bytes [at, at + bytes) of a message that lies in the interior of direct store `i`.
Part interior(const LaneState& lane, uint32_t i, uint64_t at, uint64_t bytes, uint64_t message) {
  const link::Edges& edges = lane.host->direct_edges[i];
  const uint64_t begin = std::clamp<uint64_t>(edges.front, at, at + bytes) - at;
  const uint64_t end = std::clamp<uint64_t>(message - edges.back, at, at + bytes) - at;
  return {begin, std::max(begin, end)};
}

/// Copies a folded tile, which is in this core's cache, to the other direct stores.
void copy_to_other_readers(const Instruction& op, uint64_t at, uint64_t bytes, const unsigned char* from,
                           const LaneState& lane) {
  for (uint32_t i = 1; i < lane.host->direct_stores; ++i) {
    const Part part = interior(lane, i, at, bytes, op.bytes);
    copy_bytes(reinterpret_cast<std::byte*>(lane.host->direct_to[i] + at + part.from), nullptr,
               reinterpret_cast<const std::byte*>(from + part.from), part.up_to - part.from, false);
  }
}

/// Does the link's writer lend memory of this process?
bool is_lent_here(const link::InLink& in) { return in.addresses && in.host != nullptr; }

/// In another process.
bool is_zero_copy(const link::Arrival& arrival) {
  return arrival.where == Where::Cma || arrival.where == Where::Mapped;
}

uint32_t messages_of(const Instruction& op) { return op.arrivals.end - op.arrivals.begin; }

/// Copies the edges of a message that its writer has copied or stored: all but the `taken` tiles that the reader has
/// copied already. 0, or an errno.
int copy_edges(const link::InLink& in, const Instruction& op, unsigned char* to, const LaneState& lane) {
  const auto& [front, back] = in.host->cooperative.edges;
  const auto copy = [&](uint64_t at, uint64_t bytes) {
    const unsigned char* const from = lane.operands[0] + at;
    if (const link::Arrival& arrival = lane.arrivals[0]; arrival.where == Where::Cma)
      return link::cma_read(process_of(arrival), from, to + at, bytes);
    copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), bytes, false);
    return 0;
  };
  int error = 0;
  if (front > 0 && in.host->cooperative.taken == 0) error = copy(0, front);
  if (back > 0 && in.host->cooperative.taken < in.host->cooperative.tiles && error == 0)
    error = copy(op.bytes - back, back);
  return error;
}

link::InLink& arrival_link(RankState& rank, const LaneState& lane, const Instruction& op, uint32_t i) {
  return rank.in[lane.tables->arrivals[op.arrivals.begin + i]];
}

/// Called before and after the zero-copy messages of an instruction are read (link/revoke.hpp). The index of a revoked
/// message, or kNone. In between nothing may wait, nor ask a control thread.
uint32_t begin_reads(RankState& rank, const LaneState& lane, const Instruction& op) {
  uint32_t refused = kNone;
  for (uint32_t i = 0; i < messages_of(op); ++i) {
    link::InLink& in = arrival_link(rank, lane, op, i);
    if (is_lent_here(in) && !HostRevokeWire::begin_read(in)) refused = i;
  }
  return refused;
}

uint32_t end_reads(RankState& rank, const LaneState& lane, const Instruction& op) {
  uint32_t lost = kNone;
  for (uint32_t i = 0; i < messages_of(op); ++i) {
    link::InLink& in = arrival_link(rank, lane, op, i);
    const link::Arrival& arrival = lane.arrivals[i];
    if (is_lent_here(in)) {
      HostRevokeWire::end_read(in);
    } else if (is_zero_copy(arrival) && !HostRevokeWire::still_valid(in)) {
      lost = i;
    }
  }
  return lost;
}

Outcome unreadable(RankState& rank, const LaneState& lane, const link::InLink& in, const Instruction& op, int error) {
  return HostInterpreter::fail(rank, {FaultKind::Unreadable, in.peer, lane.lane, op.step, op.bytes, {}, error});
}

/// Moves all segments. With direct stores claimed, the result is also stored to HostLane::direct_to, without a slot.
Outcome move_segments(RankState& rank, LaneState& lane, const Instruction& op, unsigned char* slot) {
  const Tables& tables = *lane.tables;
  HostReduce::Filling filling;
  if (slot != nullptr && HostReduce::chooses(op)) filling = HostReduce::begin(rank, op);
  for (uint32_t s = op.segments.begin; s < op.segments.end; ++s) {
    const Segment& segment = tables.segments[s];
    const bool elsewhere = set_operands(lane, op, segment, lane.operands);
    unsigned char* to = segment.to.base == Base::None ? nullptr : address(lane, segment.to);
    unsigned char* to_slot = slot == nullptr ? nullptr : slot + segment.at;
    if (!elsewhere && lane.host->direct_stores == 0) {
      HostReduce::run({}, rank.arithmetic, op, segment, to, to_slot, lane.operands, filling);
    } else if (!elsewhere && lane.host->direct_stores == 1) {
      HostRemoteAccess::store_direct(rank.arithmetic, op, segment, to, lane);
    } else {
      const CmaResult result = HostRemoteAccess::run_tiled(rank.arithmetic, op, segment, to, to_slot,
                                                           tables.sources + segment.sources, lane, filling.streamed);
      if (result.error != 0)
        return unreadable(rank, lane, arrival_link(rank, lane, op, result.message), op, result.error);
    }
  }
  HostReduce::end(op, filling);
  return Outcome::Progress;
}

/// Is it a cooperative copy: is there an offer, or is the message zero-copy from a writer that cooperates?
bool is_cooperative(RankState& rank, const LaneState& lane, const Instruction& op) {
  const link::InLink& in = arrival_link(rank, lane, op, 0);
  const link::Arrival& arrival = lane.arrivals[0];
  if ((op.remote & kOffersDestination) != 0) {
    return in.host->cooperative.phase != link::CooperativeReader::Phase::None;
  }
  return (op.remote & kCooperativeCopy) != 0 && (in.addresses || is_zero_copy(arrival));
}

/// Copies the next tiles of such a message.
Outcome copy_tile(RankState& rank, LaneState& lane, const Instruction& op) {
  const Segment& segment = lane.tables->segments[op.segments.begin];
  link::InLink& in = arrival_link(rank, lane, op, 0);
  lane.operands[0] = lane.arrivals[0].data + lane.tables->sources[segment.sources].offset;
  const int error = HostRemoteAccess::copy_next_tile(in, *rank.shared[static_cast<uint32_t>(segment.to.base)], op,
                                                     address(lane, segment.to), lane);
  lane.host->copying = in.host->cooperative.phase != link::CooperativeReader::Phase::None;
  if (error > 0) return unreadable(rank, lane, in, op, error);
  if (error == 0) return Outcome::Progress;
  lane.await = Await::Message;
  lane.peer = in.peer;
  lane.link_lane = in.link_lane;
  return Outcome::Waiting;
}

Outcome move_message(RankState& rank, LaneState& lane, const Instruction& op, unsigned char* slot) {
  if ((op.remote & kStoresDirect) != 0) {
    HostRemoteAccess::claim_direct_stores(rank, lane, op);
    const Outcome outcome = move_segments(rank, lane, op, nullptr);
    HostRemoteAccess::finish_direct_stores(rank, lane);
    return outcome;
  }
  return is_cooperative(rank, lane, op) ? copy_tile(rank, lane, op) : move_segments(rank, lane, op, slot);
}

}  // namespace

int HostRemoteAccess::locate(const link::InLink& in, link::Arrival& arrival, uint64_t bytes) {
  int error = 0;
  arrival.data = in.host->mappings->find(arrival.id, arrival.offset, bytes, error);
  return error;
}

void HostRemoteAccess::enter_round(RankState& rank, const LaneState& lane) {
  for (const Instruction* op = lane.next; op != lane.end; ++op) {
    if ((op->remote & kOffersDestination) == 0) continue;
    const Ref& to = lane.tables->segments[op->segments.begin].to;
    offer_direct_store(arrival_link(rank, lane, *op, 0), *rank.shared[static_cast<uint32_t>(to.base)], *op,
                       address(lane, to), rank.tag ^ op->salt);
  }
}

Outcome HostRemoteAccess::move(const HostGroup&, RankState& rank, LaneState& lane, const Instruction& op,
                               unsigned char* slot) {
  if ((op.remote & kStoresDirect) != 0) find_direct_stores(rank, lane, op);
  if ((op.remote & kZeroCopyArrivals) == 0) return move_message(rank, lane, op, slot);
  const uint32_t refused = begin_reads(rank, lane, op);
  const Outcome outcome = refused == kNone ? move_message(rank, lane, op, slot) : Outcome::Fault;
  const uint32_t lost = end_reads(rank, lane, op);
  if (refused == kNone && (lost == kNone || outcome == Outcome::Fault)) return outcome;
  const link::InLink& in = arrival_link(rank, lane, op, refused != kNone ? refused : lost);
  return HostInterpreter::fail(rank, {FaultKind::Revoked, in.peer, lane.lane, op.step, op.bytes, {}, 0});
}

void HostRemoteAccess::store_direct(const Arithmetic& how, const Instruction& op, const Segment& segment,
                                    unsigned char* to, LaneState& lane) {
  const uint64_t bytes = segment.bytes, at = segment.at;
  const Part direct = lane.host->direct_stores > 0 ? interior(lane, 0, at, bytes, op.bytes) : Part{};
  const bool past = lane.host->direct_stores == 1 && op.direct.nontemporal;
  const uint64_t ends[] = {direct.from, direct.up_to, bytes};
  uint64_t done = 0;
  Segment part = segment;
  for (const uint64_t end : ends) {
    part.bytes = end - done;
    if (part.bytes == 0) continue;
    unsigned char* const slot =
        done == direct.from && end == direct.up_to ? lane.host->direct_to[0] + at + done : nullptr;
    HostReduce::run({}, how, op, part, to + done, slot, lane.operands, past);
    for (uint32_t k = 0; k < op.sources; ++k) lane.operands[k] += part.bytes;
    done = end;
  }
}

CmaResult HostRemoteAccess::run_tiled(const Arithmetic& how, const Instruction& op, const Segment& segment,
                                      unsigned char* to, unsigned char* slot, const Ref* sources, LaneState& lane,
                                      bool streamed) {
  const bool straight = op.sources == 1 && slot == nullptr && (how.scale == nullptr || segment.raw < 0);
  if (straight) return {link::cma_read(process_of(lane.arrivals[0]), lane.operands[0], to, segment.bytes), 0};
  const uint32_t messages = std::max(1U, messages_of(op));
  const uint64_t most = std::max<uint64_t>(kGrain, machine_constants().cma_tiles / messages / kGrain * kGrain);
  Segment tile = segment;
  for (uint64_t done = 0; done < segment.bytes; done += tile.bytes) {
    tile.bytes = std::min(most, segment.bytes - done);
    unsigned char* room = tiles(messages);
    for (uint32_t k = 0, message = 0; k < op.sources; ++k) {
      if (sources[k].base != Base::Message) continue;
      const link::Arrival& arrival = lane.arrivals[message++];
      if (arrival.where != Where::Cma) continue;
      const unsigned char* const from = arrival.data + sources[k].offset + done;
      if (const int error = link::cma_read(process_of(arrival), from, room, tile.bytes)) return {error, message - 1};
      lane.operands[k] = room;
      room += most;
    }
    tile.at = segment.at + done;
    if (lane.host->direct_stores > 0) {
      store_direct(how, op, tile, to, lane);
      copy_to_other_readers(op, tile.at, tile.bytes, to, lane);
    } else {
      HostReduce::run({}, how, op, tile, to, slot, lane.operands, {.streamed = streamed});
      for (uint32_t k = 0; k < op.sources; ++k) lane.operands[k] += tile.bytes;  // the CMA ones are set again
    }
    if (to != nullptr) to += tile.bytes;
    if (slot != nullptr) slot += tile.bytes;
  }
  return {};
}

void HostRemoteAccess::offer_direct_store(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                                          unsigned char* to, uint64_t tag) {
  if (in.addresses || region.id != 0) offer(in, region, op, to, op.direct.ahead, tag, link::kEarly);
}

int HostRemoteAccess::copy_next_tile(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                                     unsigned char* to, LaneState& lane) {
  using Phase = link::CooperativeReader::Phase;
  if (in.host->cooperative.phase == Phase::None) offer(in, region, op, to, 0, 0, 0);
  if ((op.remote & kOffersDestination) != 0 && in.host->cooperative.phase == Phase::Open)
    HostCooperativeWire::close(in);  // the message has come: the writer has used the offer, or will not
  link::Tiles mine;
  switch (HostCooperativeWire::claim_front(in, mine)) {
    case link::TileStatus::Wait:
      return kWait;
    case link::TileStatus::Done:
      in.host->cooperative.phase = Phase::None;
      return copy_edges(in, op, to, lane);
    case link::TileStatus::Claimed:
      break;
  }
  const uint64_t tile = link::tile_of(op.bytes), at = mine.first * tile;
  const uint64_t bytes = std::min(mine.count * tile, op.bytes - at);
  const unsigned char* const from = lane.operands[0] + at;
  if (const link::Arrival& arrival = lane.arrivals[0]; arrival.where == Where::Cma)
    return link::cma_read(process_of(arrival), from, to + at, bytes);
  copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), bytes,
             op.nontemporal);
  return 0;
}

}  // namespace tutti::exec
