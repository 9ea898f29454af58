// How the last collectives of a rank went, and what its links carried: by this rank 0 finds out who is slow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/messages.hpp"

namespace tutti::control {

/// Asks a process, over a communicator's call boards, for the ProcessTiming of its ranks of that communicator; no call
/// has this number.
inline constexpr uint64_t kTimingKey = (uint64_t{1} << 61) + 1;

/// What the links to a peer have carried on a link lane.
struct LinkTiming {
  static constexpr uint32_t kMaxLanes = 1024;

  std::string transport;
  Rank peer = 0;
  uint32_t lane = 0;
  uint64_t sent = 0;  ///< bytes that have arrived there
  uint64_t busy = 0;  ///< nanoseconds in which bytes were on the way

  static void fields(auto& m, auto& v) {
    v.words(m.transport, kMaxLabel);
    v.number(m.peer, m.lane, m.sent, m.busy);
  }
};

/// One rank. Of the calls of the last moment that no rank leaves before all have entered it tells when it left some,
/// the same as other ranks, and for how long it had been in calls by then, on all communicators.
struct RankTiming {
  static constexpr size_t kMaxCalls = 16, kMaxLinks = 24;

  Rank rank = 0;
  uint64_t now = 0;                ///< this host's clock, nanoseconds
  uint64_t thread = 0;             ///< that made these calls
  std::vector<uint64_t> numbers;   ///< of the calls, rising
  std::vector<uint64_t> left;      ///< when, by the same clock
  std::vector<uint64_t> in_calls;  ///< time of the thread in calls: trace::Event::Kind::Left
  std::vector<LinkTiming> links;   ///< those that were busy for longest

  static void fields(auto& m, auto& v) {
    v.number(m.rank, m.now, m.thread);
    v.numbers(m.numbers, kMaxCalls);
    v.numbers(m.left, kMaxCalls);
    v.numbers(m.in_calls, kMaxCalls);
    v.list(m.links, kMaxLinks);
  }
};

struct ProcessTiming {
  std::vector<RankTiming> ranks;

  static void fields(auto& m, auto& v) { v.list(m.ranks, kMaxRanks); }
};

}  // namespace tutti::control
