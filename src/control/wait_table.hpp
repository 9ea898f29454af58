// What this process knows of stalled calls: its own, and those that other processes have reported.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
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
  uint64_t sent = 0, acked = 0;             ///< to the peer, and how many the peer has acknowledged
  uint64_t received = 0, acknowledged = 0;  ///< from the peer, and how many this rank has acknowledged
};

class WaitTable {
 public:
  using Tickets = std::vector<uint64_t>;
  using Fail = std::function<void(Code code, const std::string& text, const Tickets& tickets)>;
  struct Entry {
    Wait wait;                   ///< its age is not set
    std::vector<pid_t> threads;  ///< that are in the call
    std::vector<LinkCounts> links;
    Fail fail;  ///< fails the communicator
  };

  /// The table of this process; a forked child has its own.
  static WaitTable& of_this_process();

  /// Registers a thread of the library that makes no calls.
  void add_own_thread(pid_t thread);

  /// Sets the current wait of `who`, until it is published again or withdrawn.
  void publish(const void* who, Entry entry);
  void withdraw(const void* who);

  /// The reply to a question of rank `asker` to `rank`, as bytes (at most kMaxEntry). `entered` is asked after the
  /// process's threads have been looked at: what one of them sends before it parks is in the reply.
  std::string answer(uint64_t process, uint64_t communicator, Rank rank, Rank asker,
                     const std::function<Entered()>& entered);
  /// Reads a reply that took `seconds`, and keeps what it says of other processes. Throws Error(ProtocolError).
  WaitsReply learn(uint64_t process, const std::string& bytes, double seconds);

  /// That of a rank of this process, the longest of several; none if it waits for nobody, or only for a moment.
  std::optional<Wait> wait_of(uint64_t communicator, Rank rank);

  /// May a thread of this process go on by itself? Not if all are in calls that wait, or idle.
  bool is_free();

  /// All known waits.
  WaitGraph graph(uint64_t process);

  /// Fails the communicators of this process's waits with these tickets.
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

  std::mutex mutex_;  // guards the members below
  std::vector<pid_t> own_threads_;
  bool free_ = true;  // as of checked_: inspecting all threads is slow, and many ranks may ask
  Clock::time_point checked_{};
  std::map<const void*, Own> own_;
  std::map<uint64_t, Learned> learned_;  // by process key
};

}  // namespace tutti::control
