// What a replay keeps of lanes, the workers that run them, messages, and times to come.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "base/rank.hpp"
#include "sim/machine.hpp"
#include "sim/programs.hpp"
#include "sim/replay.hpp"

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
  Rank last = kNoRank;  // whose instruction it runs, or ran
  // The last instruction that ended: whose, when, and did it send, or read messages?
  Rank ran = kNoRank;
  double ended = -1;
  bool sent = false, received = false;

  void end(Rank rank, double now, const Work& work) {
    busy = false;
    ran = rank;
    ended = now;
    sent = work.outs.begin != work.outs.end;
    received = work.arrivals.begin != work.arrivals.end;
  }
};
/// The messages of one channel and replica. They arrive in order.
struct Stream {
  uint32_t sent = 0, here = 0, used = 0;
  uint32_t reader = kNobody, writer = kNobody;  // lanes
  uint32_t lent = 0;                            // unread messages in their sender's own memory
  bool by_kernel = false;                       // how the last message is read
  bool lends_buffer = false;                    // it lies in a buffer of its sender's call
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

/// A replay before its first call: the lanes of all ranks, the workers that run them, and the messages between them.
struct ReplayState {
  std::vector<Lane> lanes;           ///< by rank, replica, and number
  std::vector<uint32_t> first_lane;  ///< by rank, and one more
  std::vector<Worker> workers;       ///< a core's, or, on GPUs, one for each lane
  std::vector<Stream> streams;       ///< by channel and replica
};
ReplayState initial_state(const Programs& programs, const Machine& machine, uint32_t width);

/// An instruction of the lane that ends now.
Event event_of(const Programs& programs, const WindowWork& window, const Lane& lane, const Work& work, double now);

}  // namespace tutti::sim
