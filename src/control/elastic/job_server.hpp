// Who the ranks of a job are, where they change while the job runs. The launcher holds it, and each process of the job
// keeps a connection to it (elastic/job_member.hpp).
//
// The processes that make a communicator together are a generation. A process that wants to be in the next one says so:
// when it starts, or when the communicator that it had has failed. Once all processes that the launcher knows to run
// have said so, they are numbered, one of them makes a unique id, and all get it with their ranks. If one of them dies
// meanwhile, or while the communicator is made, the others come again.
//
// The launcher says which of its slots have a process. Other processes that know the job's secret may join: they wait
// until those of the present generation want the next one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/rank.hpp"
#include "base/secret.hpp"
#include "control/acceptor.hpp"
#include "control/channel.hpp"
#include "control/elastic/messages.hpp"
#include "control/event_loop.hpp"

namespace tutti::control {

class ControlThread;

/// The key of the connections between the job server and its processes.
Key job_server_key(const std::string& job, const std::string& secret);

class JobServer final : public ConnectionHandler, public std::enable_shared_from_this<JobServer> {
 public:
  /// Slots 0 to `slots` - 1 are to have a process each. `lost(slot)` is called, on the control thread, for a slot whose
  /// process is silent, or has closed its connection and not ended. Throws Error(SystemError).
  static std::shared_ptr<JobServer> open(const std::string& job, const std::string& secret, Rank slots,
                                         std::function<void(Rank slot)> lost);

  /// Where processes reach it: the value of TUTTI_JOB_SERVER.
  std::string address() const;

  // ---- the launcher's words; any thread
  /// A new process is started in this slot, in place of one that has ended.
  void restart(Rank slot);
  /// The slot's process has ended, and none takes its place.
  void drop(Rank slot);
  /// No generation follows: processes that wait for one hear why.
  void close(const std::string& why);
  /// The job is to end in so many seconds.
  void announce_end(double seconds);

  // ---- control thread
  const Key& key() const override { return key_; }
  void on_connection(Fd& fd, std::string_view first) override;

 private:
  struct Process {
    Member me;
    std::shared_ptr<SocketChannel> channel;
    bool ready = false;       // it waits for the next generation, …
    EventLoop::Id timer = 0;  // … so long
  };

  JobServer(ControlThread& control, Key key, Rank slots, std::function<void(Rank slot)> lost);
  Rank slot_for(const JoinJob& request);
  void on_frame(Rank slot, std::string_view body);
  void on_end(Rank slot, const SocketChannel* channel, const std::string& why);
  void become_ready(Rank slot, uint32_t wait_ms);
  void waited_too_long(Rank slot);
  void forget(Rank slot);
  void gather();
  void on_id(Rank slot, const MadeId& made);
  void tell_state();
  void heartbeat();
  void report_lost(Rank slot);
  std::vector<Rank> missing() const;
  bool is_guest(Rank slot) const { return slot >= slots_; }

  ControlThread& control_;
  const Key key_;
  const Rank slots_;
  const std::function<void(Rank slot)> lost_;
  std::map<Rank, Process> processes_;  // by slot; others' from slots_ on
  std::set<Rank> expected_;            // slots with a process, and the others of the present generation
  Rank next_guest_;
  uint32_t generation_ = 0;
  Deadline pause_ = Deadline::in(0);  // the earliest time of the next one
  bool gathers_later_ = false;
  std::vector<Rank> forming_;  // slots of the generation whose id is being made
  std::string closed_;         // why there is no further generation
  std::optional<Deadline> ends_;
  uint32_t told_waiting_ = 0;
  Deadline::Clock::time_point last_beat_ = Deadline::Clock::now();
};

}  // namespace tutti::control
