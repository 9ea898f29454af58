// Who waits for whom, across communicators: what processes tell each other of calls that do not move, and what follows.
//
// A process knows its own waits; of others' it learns by asking the ranks that it waits for, which tell what they have
// learnt themselves. So what can be reached from a wait comes to it within a few questions. An answer says how old it
// is at most, and each wait how long nothing had moved by then: where every wait is older than the oldest answer, all
// of them stood still at the same moment, whatever the clocks of the hosts say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.hpp"
#include "control/messages.hpp"
#include "transports/wireup.hpp"

namespace tutti::control {

inline constexpr size_t kMaxLinkLanes = 256;  ///< that a reply tells of

/// A rank that a call waits for.
struct Awaited {
  Rank rank = 0;         ///< in the call's communicator
  uint64_t process = 0;  ///< see process_key()
  /// Nothing is under way between the two as long as that rank's wait has this ticket, or, where it is in no call, its
  /// process this state(). 0: not known.
  uint64_t settled = 0;

  static void fields(auto& m, auto& v) {
    v.number(m.rank);
    v.number(m.process);
    v.number(m.settled);
  }
};

/// A call that has not moved for a while.
struct Wait {
  uint64_t ticket = 0;  ///< another one after anything has moved
  uint64_t communicator = 0;
  Rank rank = 0;
  std::string title;        ///< of the communicator, for people
  std::string call;         ///< "all_reduce(count=8, f32, sum), call 3"
  uint32_t stuck_ms = 0;    ///< nothing had moved for so long …
  uint32_t age_ms = 0;      ///< … at most this long ago
  std::vector<Awaited> on;  ///< nothing moves until one of these ranks goes on; empty: not known

  static void fields(auto& m, auto& v) {
    v.number(m.ticket);
    v.number(m.communicator);
    v.number(m.rank);
    v.text(m.title, kMaxName);
    v.text(m.call, kMaxName);
    v.number(m.stuck_ms);
    v.number(m.age_ms);
    v.list(m.on, kMaxRanks);
  }
};

/// The calls of a process that do not move.
struct ProcessWaits {
  uint64_t process = 0;
  uint8_t free = 1;     ///< a thread of it may go on by itself: it computes, or is in a call that moves
  uint32_t age_ms = 0;  ///< that was so at most this long ago
  std::vector<Wait> waits;

  /// Changes when any of its calls moves.
  uint64_t state() const;

  static void fields(auto& m, auto& v) {
    v.number(m.process);
    v.number(m.free);
    v.number(m.age_ms);
    v.list(m.waits, kMaxRanks);
  }
};

/// Messages on one link_lane from the rank that answers to the one that asks, and what it has acknowledged of the
/// asker's.
struct LinkLaneCounts {
  uint32_t link_lane = 0;
  uint64_t sent = 0, told = 0;

  static void fields(auto& m, auto& v) {
    v.number(m.link_lane);
    v.number(m.sent);
    v.number(m.told);
  }
};

/// What a rank answers that is asked for waits.
struct WaitsReply {
  uint64_t begun = 0;                   ///< collectives that the asked rank has entered
  uint64_t ticket = 0;                  ///< of its wait in this communicator; 0: it has none
  std::vector<LinkLaneCounts> links;    ///< if it has: between it and the asker
  std::vector<ProcessWaits> processes;  ///< its own first

  static void fields(auto& m, auto& v) {
    v.number(m.begun);
    v.number(m.ticket);
    v.list(m.links, kMaxLinkLanes);
    v.list(m.processes, kMaxRanks);
  }
};

uint64_t process_key(const transports::ProcessId& place);

/// Waits that can never end.
struct Stuck {
  std::vector<uint64_t> tickets;  ///< sorted; none: it is not certain
  uint32_t age_ms = 0;            ///< of the oldest part of the evidence
};

class WaitGraph {
 public:
  explicit WaitGraph(std::vector<ProcessWaits> processes) : processes_(std::move(processes)) {}

  /// All that the wait with this ticket depends on, if none of it can go on: every rank awaited there is in a wait of
  /// the same kind, or in no call of that communicator and in a process of which every thread is.
  Stuck stuck(uint64_t ticket) const;
  /// "rank 0 of world waits in barrier(), call 3, for rank 1, which …", as far as it is known.
  std::string follow(uint64_t ticket) const;

 private:
  const ProcessWaits* process(uint64_t id) const;
  const Wait* find(uint64_t ticket) const;
  bool add_awaited(const Wait& wait, const Awaited& awaited, std::vector<const Wait*>& all, uint32_t& age_ms) const;

  std::vector<ProcessWaits> processes_;
};

}  // namespace tutti::control
