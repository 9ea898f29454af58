// What a process tells of itself while it runs, for people who ask (`tutti status`, `tutti trace`): its ranks, the
// calls that they are in, and those that they were in before.
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
#include "control/status/call_timing.hpp"
#include "control/status/metrics.hpp"
#include "trace/rank_trace.hpp"

namespace tutti::control {

/// When a process heard last of another one, over the control connection of a communicator. Every open one beats: each
/// quarter of TUTTI_HEARTBEAT_TIMEOUT.
struct Heard {
  Rank rank = 0;    ///< of the other process
  uint32_t ms = 0;  ///< ago

  static void fields(auto& m, auto& v) { v.number(m.rank, m.ms); }
};

/// One rank of one communicator.
struct RankStatus {
  static constexpr size_t kMaxAwaited = 1024, kMaxCounts = 64, kMaxHeard = 64;

  std::string communicator;  ///< its public name, the same on all ranks
  std::string title;         ///< in messages
  Rank rank = 0, ranks = 0;
  std::string transports;           ///< of its links: "shm, tcp"; "": not known yet
  uint64_t entered = 0, left = 0;   ///< collectives
  uint64_t transfers = 0;           ///< sends and receives that it has entered
  uint64_t sent = 0, received = 0;  ///< bytes of messages, of calls that have ended
  uint64_t waited_ms = 0;           ///< in waits that have ended, and were longer than a moment
  std::string call;                 ///< the one entered last, of any kind: "barrier()"; "": there was none
  uint8_t is_transfer = 0;          ///< that call is a send or receive
  uint32_t still_ms = 0;            ///< none of the above has changed for so long, to a second
  uint32_t stuck_ms = 0;            ///< it waits in a call in which nothing has moved for so long; 0: it does not
  std::vector<Rank> awaited;        ///< for one of these; empty: not known
  std::string failure;              ///< why the communicator has failed; "": it has not
  uint8_t failure_code = 0;         ///< tutti::Code
  std::vector<uint64_t> counts;     ///< collectives that it has entered, by Collective
  std::vector<Heard> heard;         ///< ranks of which this process hears, the longest ago first

  static void fields(auto& m, auto& v) {
    v.words(m.communicator, kMaxName);
    v.words(m.title, kMaxName);
    v.words(m.transports, kMaxName);
    v.number(m.rank, m.ranks, m.entered, m.left, m.transfers, m.sent, m.received, m.waited_ms);
    v.words(m.call, kMaxName);
    v.number(m.is_transfer, m.still_ms, m.stuck_ms);
    v.numbers(m.awaited, kMaxAwaited);
    v.words(m.failure, kMaxSmall);
    v.number(m.failure_code);
    v.numbers(m.counts, kMaxCounts);
    v.list(m.heard, kMaxHeard);
  }
};

struct ProcessStatus {
  std::string version;            ///< of the library
  uint8_t is_free = 1;            ///< a thread may go on by itself: not all are in calls that wait
  uint32_t omitted = 0;           ///< ranks for which the answer had no room
  std::vector<RankStatus> ranks;  ///< in the order in which they were made
  std::vector<std::string> slow;  ///< ranks and links that it has found to be slow (slow_watch.hpp), in words

  static constexpr size_t kMaxSlow = 8, kMaxSlowText = 512;
  static void fields(auto& m, auto& v) {
    v.words(m.version, kMaxLabel);
    v.number(m.is_free, m.omitted);
    v.list(m.ranks, kMaxRanks);
    v.texts(m.slow, kMaxSlow, kMaxSlowText);
  }
};

/// Asks a process, over its ranks' call boards, for a ProcessStatus; no call has this number.
inline constexpr uint64_t kStatusKey = uint64_t{1} << 61;

/// The ranks of this process.
class StatusBook {
 public:
  /// How a rank does, its last calls, what it has counted, and how its calls went. All work in any thread, and must not
  /// wait.
  struct Source {
    std::string communicator, title;
    Rank rank = 0;
    std::function<RankStatus()> status;
    std::function<trace::RankTrace()> trace;
    std::function<RankMetrics()> metrics;
    std::function<RankTiming()> timing;
  };

  /// The book of this process; a forked child has its own.
  static StatusBook& of_this_process();

  void add(const void* who, Source source);
  /// Returns after the source's last run.
  void remove(const void* who);

  ProcessStatus read();
  /// read(), as bytes: at most `room`, the rest is counted as omitted.
  std::string answer(size_t room = kMaxEntry);
  /// The last calls of all ranks, as the JSON of a process (trace/rank_trace.hpp).
  std::string trace(const std::string& host);
  /// What they have counted.
  ProcessMetrics metrics();
  /// Is rank 0 of the communicator here, and has it made calls since this was asked last? As read() knows it.
  bool has_moved(const std::string& communicator);
  /// Its name in messages; "" if it has no rank here.
  std::string title_of(const std::string& communicator);
  /// How the calls of its ranks here went.
  ProcessTiming timing(const std::string& communicator);
  /// timing(), as bytes: at most `room`. Ranks for which there is none are left out.
  std::string timing_answer(const std::string& communicator, size_t room = kMaxEntry);
  /// Each communicator's ranks of which this process hears, and when it did last: what read() tells from now on.
  using HeardAt = std::map<std::string, std::map<Rank, Deadline::Clock::time_point>>;
  void set_heard(HeardAt heard);
  /// What metrics() tells of the process's memory (link/mapped_memory.hpp) from now on.
  void set_mapped(std::function<uint64_t()> mapped);
  /// What read() tells as `slow` from now on.
  void set_slow(std::vector<std::string> slow);
  /// read(), for its memory of what has changed. Called every second.
  void look() { read(); }

 private:
  using Clock = Deadline::Clock;
  struct Entry {
    uint64_t number = 0;
    Source source;
    uint64_t entered = 0, left = 0, transfers = 0;
    uint64_t asked = 0;  // what has_moved() was told: entered + transfers
    Clock::time_point changed;
  };

  /// What each rank says by `source`, in the order of their numbers.
  template <class T>
  std::vector<T> ask_all(std::function<T()> Source::*source);

  std::mutex mutex_;  // guards the members below
  uint64_t added_ = 0;
  std::map<const void*, Entry> entries_;
  std::vector<std::string> slow_;
  HeardAt heard_;
  std::function<uint64_t()> mapped_;
};

}  // namespace tutti::control
