// What a replay keeps of lanes, the workers that run them, messages, and times to come.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "base/rank.hpp"

namespace tutti::sim {

inline constexpr uint32_t kNobody = 0xffffffff;

struct Lane {
  Rank rank = 0;
  uint32_t lane = 0, replica = 0, worker = 0;
  uint64_t round = 0;  // of the call
  uint32_t call = 0;
  uint32_t next = 0;     // within the lane's instructions
  uint32_t pending = 0;  // messages of the running instruction that are under way
  bool done = true;      // with this call
  double began = 0;
};
struct Worker {
  std::vector<uint32_t> lanes;
  uint32_t turn = 0;
  bool busy = false;
  Rank last = kNoRank;  // whose instruction it ran
};
/// The messages of one channel and replica. They arrive in order.
struct Stream {
  uint32_t sent = 0, here = 0, used = 0;
  uint32_t reader = kNobody, writer = kNobody;  // lanes
  uint32_t lent = 0;                            // unread messages in their sender's own memory
  bool by_kernel = false;                       // how the last message is read
};
struct Timer {
  enum Kind : uint8_t { Called, Worked, Arrived } kind;
  double time;
  uint64_t order;
  uint32_t of;  // lane, or stream
  bool operator<(const Timer& other) const { return std::tie(time, order) > std::tie(other.time, other.order); }
};
/// What a message on the network belongs to.
struct Transfer {
  uint32_t lane = kNobody;    // whose instruction ends with it, or …
  uint32_t stream = kNobody;  // … where it arrives then
  double latency = 0;
};

}  // namespace tutti::sim
