#include "exec/host.hpp"

#include <algorithm>
#include <memory>

#include "transports/pull.hpp"

namespace tutti::exec {
namespace {

using transports::HostHelpWire;

constexpr uint64_t kTiles = 256 << 10;  // bytes: what is pulled is folded while this core's cache has it
constexpr uint64_t kGrain = 4096;       // … and the least of each message

/// Where pulled tiles of so many messages wait to be folded.
unsigned char* tiles(uint32_t messages) {
  thread_local std::unique_ptr<unsigned char[]> memory;
  thread_local uint64_t room = 0;
  const uint64_t wanted = std::max(kTiles, messages * kGrain);
  if (room < wanted) memory.reset(new unsigned char[wanted]), room = wanted;
  return memory.get();
}

/// Offers a place to the writer of message `in.next + ahead`.
void offer(transports::InLink& in, const transports::SharedRegion& region, const Op& op, const unsigned char* to,
           uint64_t ahead, uint64_t tag, uint64_t flags) {
  using transports::Way;
  const auto publish = [&](Way way, uint64_t place, uint64_t id) {
    const uint64_t how = static_cast<uint64_t>(way) | (op.stream ? transports::kStreamed : 0) | flags;
    HostHelpWire::offer(in, transports::tiles_of(op.bytes), {how, place, id, ahead, tag, op.after});
  };
  const auto address = reinterpret_cast<uint64_t>(to);
  if (in.addresses) return publish(Way::Address, address, 0);
  if (region.id != 0) return publish(Way::Shared, static_cast<uint64_t>(to - region.base), region.id);
  publish(in.process != 0 ? Way::Push : Way::None, address, 0);
}

uint32_t messages_of(const Op& op) { return op.arrivals.end - op.arrivals.begin; }

}  // namespace

Pulled HostFold::pull(const Arithmetic& how, const Op& op, const Segment& segment, unsigned char* to,
                      unsigned char* slot, const Ref* sources, LaneState& lane) {
  const bool straight = op.sources == 1 && slot == nullptr && (how.scale == nullptr || segment.raw < 0);
  if (straight) return {transports::pull(lane.arrivals[0].process, lane.pointers[0], to, segment.bytes), 0};
  const uint32_t messages = std::max(1U, messages_of(op));
  const uint64_t most = std::max<uint64_t>(kGrain, kTiles / messages / kGrain * kGrain);
  Segment tile = segment;
  for (uint64_t done = 0; done < segment.bytes; done += tile.bytes) {
    tile.bytes = std::min(most, segment.bytes - done);
    unsigned char* room = tiles(messages);
    for (uint32_t k = 0, message = 0; k < op.sources; ++k) {
      if (sources[k].base != Base::Message) continue;
      const transports::Arrival& arrival = lane.arrivals[message++];
      if (arrival.process == 0) continue;
      const unsigned char* const from = arrival.data + sources[k].offset + done;
      if (const int error = transports::pull(arrival.process, from, room, tile.bytes)) return {error, message - 1};
      lane.pointers[k] = room;
      room += most;
    }
    run({}, how, op, tile, to, slot, lane.pointers, lane.placed == 1 && op.stream_placed);
    for (uint32_t i = 1; i < lane.placed; ++i) {
      copy_bytes(reinterpret_cast<std::byte*>(lane.places[i] + segment.at + done), nullptr,
                 reinterpret_cast<const std::byte*>(to), tile.bytes, false);
    }
    for (uint32_t k = 0; k < op.sources; ++k) lane.pointers[k] += tile.bytes;  // those of pulled ones are set anew
    if (to != nullptr) to += tile.bytes;
    if (slot != nullptr) slot += tile.bytes;
  }
  return {};
}

void HostFold::offer_place(transports::InLink& in, const transports::SharedRegion& region, const Op& op,
                           unsigned char* to, uint64_t tag) {
  if (in.helped && (in.addresses || region.id != 0)) offer(in, region, op, to, op.ahead, tag, transports::kAhead);
}

int HostFold::share(transports::InLink& in, const transports::SharedRegion& region, const Op& op, unsigned char* to,
                    LaneState& lane) {
  using Phase = transports::Sharing::Phase;
  if (in.sharing.phase == Phase::None) offer(in, region, op, to, 0, 0, 0);
  if (op.offers && in.sharing.phase == Phase::Open) HostHelpWire::close(in);  // the writer has placed it, or will not
  transports::Tiles mine;
  switch (HostHelpWire::take(in, mine)) {
    case transports::Take::Wait:
      return kWait;
    case transports::Take::Done:
      in.sharing.phase = Phase::None;
      return 0;
    case transports::Take::Tiles:
      break;
  }
  const uint64_t tile = transports::tile_of(op.bytes), at = mine.first * tile;
  const uint64_t bytes = std::min(mine.count * tile, op.bytes - at);
  const unsigned char* const from = lane.pointers[0] + at;
  if (const int process = lane.arrivals[0].process) return transports::pull(process, from, to + at, bytes);
  copy_bytes(reinterpret_cast<std::byte*>(to + at), nullptr, reinterpret_cast<const std::byte*>(from), bytes,
             op.stream);
  return 0;
}

}  // namespace tutti::exec
