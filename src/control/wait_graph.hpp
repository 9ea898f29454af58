// Which rank waits for which, across communicators: the messages that processes exchange about stalled calls, and
// deadlocks found in them.
//
// A process knows its own waits. It learns other processes' waits from the ranks that it waits for, which also pass on
// what they have learned. So a few questions reveal everything reachable from a wait. An answer states its greatest
// possible age, and each wait how long nothing had moved at that time. If every wait has stalled for longer than the
// oldest answer's age, all of them were stalled at the same moment, whatever the hosts' clocks say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rank.hpp"
#include "control/messages.hpp"
#include "transports/wireup.hpp"

namespace tutti::control {

inline constexpr size_t kMaxLinkLanes = 256;  ///< in one reply

/// A rank that a call waits for.
struct Awaited {
  Rank rank = 0;         ///< in the call's communicator
  uint64_t process = 0;  ///< see process_key()
  /// Nothing is in flight between the two while that rank's wait has this ticket, or, if it is in no call, its process
  /// this state(). 0: unknown.
  uint64_t settled = 0;

  static void fields(auto& m, auto& v) { v.number(m.rank, m.process, m.settled); }
};

/// A stalled call.
struct Wait {
  uint64_t ticket = 0;  ///< changes whenever the call moves
  uint64_t communicator = 0;
  Rank rank = 0;
  std::string title;        ///< of the communicator, in messages
  std::string call;         ///< "all_reduce(count=8, f32, sum), call 3"
  uint32_t stuck_ms = 0;    ///< nothing had moved for at least this long …
  uint32_t age_ms = 0;      ///< … at a moment at most this long ago
  std::vector<Awaited> on;  ///< the call cannot move until one of these ranks does; empty: unknown
  /// A device is in it, and no thread: the rank may make calls of the host meanwhile, and its device ends none before.
  uint8_t on_device = 0;

  static void fields(auto& m, auto& v) {
    v.number(m.ticket, m.communicator, m.rank);
    v.words(m.title, kMaxName);
    v.words(m.call, kMaxName);
    v.number(m.stuck_ms, m.age_ms);
    v.list(m.on, kMaxRanks);
    v.number(m.on_device);
  }
};

/// The stalled calls of a process.
struct ProcessWaits {
  uint64_t process = 0;
  uint8_t free = 1;     ///< a thread of it may progress by itself: it computes, or is in a call that moves
  uint32_t age_ms = 0;  ///< age of `free`, at most
  std::vector<Wait> waits;

  /// Changes when any of its calls moves.
  uint64_t state() const;

  static void fields(auto& m, auto& v) {
    v.number(m.process, m.free, m.age_ms);
    v.list(m.waits, kMaxRanks);
  }
};

/// Messages on one link_lane from the answering rank to the asker, and how many of the asker's messages it has
/// acknowledged.
struct LinkLaneCounts {
  uint32_t link_lane = 0;
  uint64_t sent = 0, acknowledged = 0;

  static void fields(auto& m, auto& v) { v.number(m.link_lane, m.sent, m.acknowledged); }
};

/// The calls of a communicator that one of its ranks has entered.
struct Entered {
  static constexpr uint64_t kUnknown = ~uint64_t{0};  ///< as many as there may be
  uint64_t collectives = 0;
  uint64_t sends = kUnknown;  ///< the number of the last one to the rank that asks
};

/// A rank's reply to a question for its waits.
struct WaitsReply {
  Entered entered;                      ///< by the asked rank
  uint64_t ticket = 0;                  ///< of its wait in this communicator; 0: none
  std::vector<LinkLaneCounts> links;    ///< the lanes between it and the asker, if it waits
  std::vector<ProcessWaits> processes;  ///< its own first

  static void fields(auto& m, auto& v) {
    v.number(m.entered.collectives, m.entered.sends, m.ticket);
    v.list(m.links, kMaxLinkLanes);
    v.list(m.processes, kMaxRanks);
  }
};

uint64_t process_key(const transports::ProcessId& place);

/// Waits that form a deadlock.
struct Stuck {
  std::vector<uint64_t> tickets;  ///< sorted; empty if it is not certain
  uint32_t age_ms = 0;            ///< of the oldest part of the evidence
};

class WaitGraph {
 public:
  explicit WaitGraph(std::vector<ProcessWaits> processes) : processes_(std::move(processes)) {}

  /// All waits on which this one depends, if none of them can progress: every awaited rank is in such a wait too, or
  /// has not entered the communicator's call while every thread of its process is blocked. A thread that waits depends
  /// on the peer's threads too where the peer's wait is its device's.
  Stuck stuck(uint64_t ticket) const;
  /// The chain of waits, as far as it is known: "rank 0 of world waits in barrier(), call 3, for rank 1, which …".
  std::string follow(uint64_t ticket) const;
  /// What the awaited rank waits for, after words that name it: "it waits in barrier(), call 4, for rank 2, which …".
  /// "" if it is in no call, or nothing is known.
  std::string follow_awaited(uint64_t ticket) const;

 private:
  std::pair<const Wait*, bool> next_of(const Wait& wait) const;
  std::string follow_from(const Wait& first, int hops) const;
  const ProcessWaits* process(uint64_t id) const;
  const Wait* find(uint64_t ticket) const;
  bool add_awaited(const Wait& wait, const Awaited& awaited, std::vector<const Wait*>& all, uint32_t& age_ms) const;

  std::vector<ProcessWaits> processes_;
};

}  // namespace tutti::control
