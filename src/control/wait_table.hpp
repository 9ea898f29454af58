// What this process knows of calls that do not move: its own, and those of others that it has been told of.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "control/wait_graph.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

/// Messages between a rank and one peer on one link_lane.
struct LinkCounts {
  Rank peer = 0;
  uint32_t link_lane = 0;
  uint64_t sent = 0, acked = 0;     ///< to the peer, and what it has acknowledged of them
  uint64_t received = 0, told = 0;  ///< from the peer, and what has been acknowledged of them
};

class WaitTable {
 public:
  using Tickets = std::vector<uint64_t>;
  using Fail = std::function<void(Code code, const std::string& text, const Tickets& tickets)>;
  struct Entry {
    Wait wait;         ///< without its age
    pid_t thread = 0;  ///< in which the call is
    std::vector<LinkCounts> links;
    Fail fail;  ///< fails the communicator
  };

  /// That of this process; a forked child has its own.
  static WaitTable& of_this_process();

  /// A thread of the library's that makes no calls.
  void add_own_thread(pid_t thread);

  /// The wait of `who`, as of now, until it is published anew or withdrawn.
  void publish(const void* who, Entry entry);
  void withdraw(const void* who);

  /// The answer to rank `asker`'s question to `rank`, as bytes (at most kMaxEntry).
  std::string answer(uint64_t process, uint64_t communicator, Rank rank, Rank asker, uint64_t begun);
  /// Reads such bytes, which came within `seconds`, and remembers what they say of other processes. Throws
  /// Error(ProtocolError).
  WaitsReply learn(uint64_t process, const std::string& bytes, double seconds);

  /// All that is known.
  WaitGraph graph(uint64_t process);

  /// Fails the communicators of those of this process's waits that have these tickets.
  void fail(Code code, const std::string& text, const Tickets& tickets);

 private:
  using Clock = Deadline::Clock;
  struct Own {
    Entry entry;
    Clock::time_point looked;
  };
  struct Learned {
    ProcessWaits waits;
    Clock::time_point heard;
  };
  ProcessWaits own_waits(uint64_t process);
  std::vector<ProcessWaits> all(uint64_t process);

  std::mutex mutex_;  // guards what follows
  std::vector<pid_t> own_threads_;
  bool free_ = true;  // as of checked_: to look at all threads takes a while, and many may ask
  Clock::time_point checked_{};
  std::map<const void*, Own> own_;
  std::map<uint64_t, Learned> learned_;  // by process
};

}  // namespace tutti::control
