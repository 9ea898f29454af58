// What a process tells of itself while it runs, for people who ask (`tutti status`): its ranks, and the calls that they
// are in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/rank.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// One rank of one communicator.
struct RankStatus {
  static constexpr size_t kMaxAwaited = 1024;

  std::string communicator;  ///< its public name, the same on all ranks
  std::string title;         ///< in messages
  Rank rank = 0, ranks = 0;
  uint64_t entered = 0, left = 0;  ///< collectives
  uint64_t transfers = 0;          ///< sends and receives that it has entered
  std::string call;                ///< the one entered last, of any kind: "barrier()"; "": there was none
  uint8_t is_transfer = 0;         ///< that call is a send or receive
  uint32_t still_ms = 0;           ///< none of the above has changed for so long, to a second
  uint32_t stuck_ms = 0;           ///< it waits in a call in which nothing has moved for so long; 0: it does not
  std::vector<Rank> awaited;       ///< for one of these; empty: not known
  std::string failure;             ///< why the communicator has failed; "": it has not

  static void fields(auto& m, auto& v) {
    v.words(m.communicator, kMaxName);
    v.words(m.title, kMaxName);
    v.number(m.rank, m.ranks, m.entered, m.left, m.transfers);
    v.words(m.call, kMaxName);
    v.number(m.is_transfer, m.still_ms, m.stuck_ms);
    v.numbers(m.awaited, kMaxAwaited);
    v.words(m.failure, kMaxSmall);
  }
};

struct ProcessStatus {
  std::string version;            ///< of the library
  uint32_t omitted = 0;           ///< ranks for which the answer had no room
  std::vector<RankStatus> ranks;  ///< in the order in which they were made

  static void fields(auto& m, auto& v) {
    v.words(m.version, kMaxLabel);
    v.number(m.omitted);
    v.list(m.ranks, kMaxRanks);
  }
};

/// Asks a process, over its ranks' call boards, for a ProcessStatus; no call has this number.
inline constexpr uint64_t kStatusKey = uint64_t{1} << 61;

/// The ranks of this process.
class StatusBook {
 public:
  using Source = std::function<RankStatus()>;

  /// The book of this process; a forked child has its own.
  static StatusBook& of_this_process();

  /// `source` says how `who` does, in any thread, and must not wait.
  void add(const void* who, Source source);
  /// Returns after the source's last run.
  void remove(const void* who);

  ProcessStatus read();
  /// read(), as bytes: at most kMaxEntry, the rest is counted as omitted.
  std::string answer();
  /// read(), for its memory of what has changed. Called every second.
  void look() { read(); }

 private:
  using Clock = Deadline::Clock;
  struct Entry {
    uint64_t number = 0;
    Source source;
    uint64_t entered = 0, left = 0, transfers = 0;
    Clock::time_point changed;
  };

  std::mutex mutex_;  // guards the members below
  uint64_t added_ = 0;
  std::map<const void*, Entry> entries_;
};

}  // namespace tutti::control
