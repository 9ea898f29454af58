// What two ranks have sent each other, as one of them leaves.
#pragma once

#include <cstdint>
#include <string>

#include "base/rank.hpp"

namespace tutti::control {

/// What a rank that leaves has sent to `peer`, and received from it: messages of sends and receives.
struct PeerTransfers {
  Rank peer = 0;
  uint64_t sent = 0, received = 0;
  static void fields(auto& m, auto& v) {
    v.number(m.peer);
    v.number(m.sent);
    v.number(m.received);
  }
};

/// A rank that left.
struct Left {
  uint64_t calls = 0;             ///< collectives that it made
  std::string last;               ///< the last of them, in words
  uint64_t sent_to_us = 0;        ///< its sends to this rank
  uint64_t received_from_us = 0;  ///< its receives from this rank
};

}  // namespace tutti::control
