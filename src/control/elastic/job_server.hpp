// Who the ranks of a job are, where they change while the job runs. The launcher holds it, and each process of the job
// keeps a connection to it (elastic/job_member.hpp).
//
// The processes that make a communicator together are a generation. A process asks to be in the next one when it
// starts, and when its communicator has failed. Once all processes that take part have asked, they are numbered, one of
// them makes a unique id, and all get it with their ranks. If one of them dies meanwhile, or while the communicator is
// made, the others ask again.
//
// The launcher says which of its slots have a process. A slot whose process has closed its connection and lives on
// takes part no longer, until it comes back. Other processes that know the job's secret may join: they wait until those
// of the present generation want the next one.
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
  /// Slots 0 to `slots` - 1 are to have a process each. `lost(slot, incarnation)` is called, on the control thread, for
  /// a process that is silent. Throws Error(SystemError).
  static std::shared_ptr<JobServer> open(const std::string& job, const std::string& secret, Rank slots,
                                         std::function<void(Rank slot, uint32_t incarnation)> lost);

  /// Where processes reach it: the value of TUTTI_JOB_SERVER.
  std::string address() const;

  // ---- the launcher's words; any thread
  /// A new process is to be started in this slot, in place of one that has ended: its incarnation.
  void restart(Rank slot, uint32_t incarnation);
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
    uint32_t generation = 0;  // the last one that it was admitted to
    bool ready = false;       // it waits for the next one, …
    uint32_t request = 0;     // … as its request says, …
    EventLoop::Id timer = 0;  // … so long
  };

  JobServer(ControlThread& control, Key key, Rank slots, std::function<void(Rank slot, uint32_t incarnation)> lost);
  Rank slot_for(const JoinJob& request);
  void on_frame(Rank slot, std::string_view body);
  void on_end(Rank slot, const std::shared_ptr<SocketChannel>& channel, const std::string& why);
  void become_ready(Rank slot, const MemberReady& ready);
  void waited_too_long(Rank slot);
  void refuse(Process& process, Code code, const std::string& text);
  void forget(Rank slot);
  void gather();
  void on_id(Rank slot, const MadeId& made);
  JobNotice state() const;
  void tell_state();
  void heartbeat();
  std::vector<Rank> missing() const;
  bool is_guest(Rank slot) const { return slot >= slots_; }
  bool is_forming(Rank slot) const;

  ControlThread& control_;
  const Key key_;
  const Rank slots_;
  const std::function<void(Rank slot, uint32_t incarnation)> lost_;
  std::map<Rank, uint32_t> incarnations_;  // by slot; 0 where there is none
  std::map<Rank, Process> processes_;      // by slot; others' from slots_ on
  std::set<Rank> expected_;                // those that take part: slots, and others of the present generation
  std::set<Rank> dropped_;                 // slots
  Rank next_guest_;
  uint32_t attempt_ = 0;              // to form a generation
  uint32_t generation_ = 0;           // the present one
  uint32_t broken_ = 0;               // the newest of which a process has ended
  Deadline pause_ = Deadline::in(0);  // the earliest time of the next one
  bool gathers_later_ = false;
  std::vector<Rank> forming_;  // slots of the generation whose id is being made
  std::string closed_;         // why there is no further generation
  std::optional<Deadline> ends_;
  JobNotice last_notice_;
  Deadline::Clock::time_point last_beat_ = Deadline::Clock::now();
};

}  // namespace tutti::control
