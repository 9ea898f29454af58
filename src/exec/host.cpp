#include "exec/host.hpp"

#include <algorithm>
#include <memory>

#include "transports/pull.hpp"

namespace tutti::exec {
namespace {

constexpr uint64_t kTiles = 256 << 10;  // bytes: what is pulled is folded while this core's cache has it

/// Where pulled tiles wait to be folded.
unsigned char* tiles() {
  thread_local std::unique_ptr<unsigned char[]> memory(new unsigned char[kTiles]);
  return memory.get();
}

uint32_t messages_of(const Op& op) { return op.arrivals.end - op.arrivals.begin; }

}  // namespace

Pulled HostFold::pull(const Arithmetic& how, const Op& op, const Segment& segment, unsigned char* to,
                      unsigned char* slot, const Ref* sources, LaneState& lane) {
  const bool straight = op.sources == 1 && slot == nullptr && (how.scale == nullptr || segment.raw < 0);
  if (straight) return {transports::pull(lane.arrivals[0].process, lane.pointers[0], to, segment.bytes), 0};
  constexpr uint64_t kGrain = 4096;
  const uint64_t most = std::max<uint64_t>(kGrain, kTiles / messages_of(op) / kGrain * kGrain);
  Segment tile = segment;
  for (uint64_t done = 0; done < segment.bytes; done += tile.bytes) {
    tile.bytes = std::min(most, segment.bytes - done);
    unsigned char* room = tiles();
    for (uint32_t k = 0, message = 0; k < op.sources; ++k) {
      if (sources[k].base != Base::Message) continue;
      const transports::Arrival& arrival = lane.arrivals[message++];
      if (arrival.process == 0) continue;
      const unsigned char* const from = arrival.data + sources[k].offset + done;
      if (const int error = transports::pull(arrival.process, from, room, tile.bytes)) return {error, message - 1};
      lane.pointers[k] = room;
      room += most;
    }
    run({}, how, op, tile, to, slot, lane.pointers);
    for (uint32_t k = 0; k < op.sources; ++k) lane.pointers[k] += tile.bytes;  // those of pulled ones are set anew
    if (to != nullptr) to += tile.bytes;
    if (slot != nullptr) slot += tile.bytes;
  }
  return {};
}

}  // namespace tutti::exec
