// How many messages two ranks have sent each other, reported when one of them leaves.
#pragma once

#include <cstdint>
#include <string>

#include "base/rank.hpp"

namespace tutti::control {

/// The sends and receives between a leaving rank and `peer`, in messages.
struct PeerTransfers {
  Rank peer = 0;
  uint64_t sent = 0, received = 0;
  static void fields(auto& m, auto& v) { v.number(m.peer, m.sent, m.received); }
};

/// A rank that left.
struct Left {
  uint64_t calls = 0;             ///< collectives that it called
  std::string last;               ///< the last of them, as text
  uint64_t sent_to_us = 0;        ///< its sends to this rank
  uint64_t received_from_us = 0;  ///< its receives from this rank
};

}  // namespace tutti::control
