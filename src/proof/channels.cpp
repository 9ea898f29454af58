#include "proof/channels.hpp"

#include "base/format.hpp"
#include "link/link.hpp"

namespace tutti::proof {

Channel& Channels::at(const ChannelId& id) {
  const auto [found, is_new] = channels_.try_emplace(id);
  Channel& channel = found->second;
  if (!is_new) return channel;
  const std::string name = fmt::format("link {}{} from rank {} to rank {}{}", id.link_lane % link::kLlLanes,
                                       id.link_lane >= link::kLlLanes ? " in lines" : "", id.from, id.to,
                                       id.replica > 0 ? fmt::format(", replica {}", id.replica) : "");
  channel.sent = job_.add(Word{.name = "the messages on " + name});
  channel.consumed = job_.add(Word{.name = "the consumed messages on " + name});
  channel.offered = job_.add(Word{.name = "the offers for " + name});
  channel.copied = job_.add(Word{.name = "the copies for " + name});
  channel.lines = id.link_lane >= link::kLlLanes;
  channel.capacity = channel.lines ? link::kLlSlots : link::kCapacity;
  channel.slot_elements = slot_bytes_ / element_bytes_;
  channel.ring = job_.add(Memory{"the ring of " + name, link::kCapacity * (link::kInlineBytes / element_bytes_)});
  channel.slots = job_.add(Memory{"the slots of " + name, link::kPushSlots * channel.slot_elements});
  return channel;
}

Place Channels::next_inline(const Channel& channel) const {
  return {channel.ring, channel.next % link::kCapacity * (link::kInlineBytes / element_bytes_)};
}

Place Channels::next_slot(const Channel& channel) const {
  const uint64_t slot = channel.lines ? channel.next % link::kLlSlots : channel.pushed.size() % link::kPushSlots;
  return {channel.slots, slot * channel.slot_elements};
}

}  // namespace tutti::proof
