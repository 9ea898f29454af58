// The links of a job of lanes: which message lies where, as link/wire.hpp and link/ll.hpp keep them.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "exec/program.hpp"
#include "proof/job.hpp"

namespace tutti::proof {

/// One end sends on it in one thread, the other receives in one.
struct ChannelId {
  Rank from = 0, to = 0;
  uint32_t link_lane = 0, replica = 0;
  auto operator<=>(const ChannelId&) const = default;
};

/// A message, as its sender knows it.
struct Message {
  uint64_t bytes = 0;
  Place place;
  bool zero_copy = false, is_inline = false;
  bool stored = false;  ///< directly: its elements are at their destination when it comes
};

/// What a reader offers before a message comes: its destination.
struct DestinationOffer {
  Place to;
  uint64_t bytes = 0;
  uint32_t after = 0;  ///< exec::DirectStore
};

struct Channel {
  uint32_t sent = 0, consumed = 0, offered = 0, copied = 0;  ///< words that count messages
  uint32_t ring = 0, slots = 0;  ///< memories: descriptors, and slots in the reader's memory
  uint64_t capacity = 0;         ///< messages that may be unread
  uint64_t slot_elements = 0;
  bool lines = false;
  std::vector<Message> messages;
  std::map<uint64_t, DestinationOffer> offers;  ///< by message
  std::map<uint64_t, uint32_t> storers;         ///< by message that may be stored directly: exec::DirectStore::received
  std::vector<uint64_t> pushed;                 ///< numbers of pushed messages
  uint64_t zero_copies = 0;                     ///< the last zero-copy message's number, from 1
  // while threads are written
  uint64_t next = 0, received = 0, published = 0;

  /// Is the message stored to the destination that its reader offers?
  const DestinationOffer* taken(uint64_t message) const {
    const auto offer = offers.find(message);
    const auto storer = storers.find(message);
    const bool both = offer != offers.end() && storer != storers.end();
    return both && offer->second.after <= storer->second ? &offer->second : nullptr;
  }
};

/// All channels of a job. One that does not exist yet is made by at().
class Channels {
 public:
  Channels(Job& job, uint64_t slot_bytes, uint64_t element_bytes)
      : job_(job), slot_bytes_(slot_bytes), element_bytes_(element_bytes) {}
  Channel& at(const ChannelId& id);
  auto begin() { return channels_.begin(); }
  auto end() { return channels_.end(); }
  /// Where the next message lies in the reader's memory: inline, or in a slot.
  Place next_inline(const Channel& channel) const;
  Place next_slot(const Channel& channel) const;

 private:
  Job& job_;
  const uint64_t slot_bytes_, element_bytes_;
  std::map<ChannelId, Channel> channels_;
};

}  // namespace tutti::proof
