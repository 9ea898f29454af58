// The two ends of a link for tests of cooperative copies and direct stores.
#pragma once

#include <memory>

#include "link/cooperative_copy.hpp"
#include "support/link_ends.hpp"

namespace tutti::link {

inline constexpr uint64_t kCma = static_cast<uint64_t>(Route::CmaWrite);

/// The bytes of a message of `tiles` tiles; the tests here do not use its content.
inline uint64_t bytes_of(uint64_t tiles) { return tiles * tile_of(1); }

template <class Memory>
struct Ends {
  using Wire = CooperativeWire<Memory>;

  std::unique_ptr<LinkMemory> memory = std::make_unique<LinkMemory>();
  HostWriter writer;
  HostReader reader;
  OutLink out = writing_end(*memory, &writer);
  InLink in = reading_end(*memory, &reader);
  OfferCopy offered;

  void publish(uint64_t tiles) {
    writer.messages[out.next % kCapacity] = {out.next + 1, nullptr, bytes_of(tiles)};
    out.zcopied = ++out.next;
  }
  void offer(uint64_t tiles) { Wire::offer(in, tiles, {kCma, 4096}); }
  void consume() { out.acked = ++in.next; }
  bool claim(Tiles& mine) { return Wire::find_offer(out, offered) && Wire::claim_back(out, offered, mine); }
};

}  // namespace tutti::link
