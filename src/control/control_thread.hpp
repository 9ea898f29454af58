// The control thread: one for each process, asleep unless something arrives. It owns all sockets of the control plane,
// accepts and checks connections, and runs the rendezvous servers and clients of this process's communicators.
//
// It starts at first use and lives as long as the process; nothing it uses is ever destroyed, so it may outlive main().
// A forked child has no such thread: what it inherited is unusable there, and its own first use starts anew.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "base/secret.hpp"
#include "control/acceptor.hpp"
#include "control/event_loop.hpp"
#include "control/messages.hpp"

namespace tutti::control {

class RendezvousServer;
class ControlClient;

class ControlThread {
 public:
  /// That of this process. Throws Error(SystemError) when it cannot start.
  static ControlThread& get();

  EventLoop& loop() { return loop_; }
  Acceptor& acceptor() { return acceptor_; }
  /// Who this process is and where it listens.
  const Member& home() const { return home_; }
  /// Throws why this host has no address to offer (TUTTI_INTERFACE). Then `home()` has the loopback address only,
  /// enough to tell ranks of this host.
  void check_addresses() const;
  /// Throws Error(InvalidUsage) in a child that was forked after this thread started.
  void check_not_forked() const;
  bool forked() const;

  // ---- what this process holds; any thread
  void add_handler(std::shared_ptr<ConnectionHandler> handler);
  void remove_handler(const Key& key);

  void add_server(std::shared_ptr<RendezvousServer> server);
  std::shared_ptr<RendezvousServer> server(const std::string& name);
  void remove_server(const std::string& name);
  /// A rendezvous server is no longer busy, or a communicator has failed.
  void notify();
  /// Where the rendezvous server of that name is in this process, and refuses all: waits until `ranks` ranks have heard
  /// of it, since with this process it would be gone.
  void wait_until_told(const std::string& name, size_t ranks, Deadline deadline);

  /// Throws Error(InvalidArgument) if that client is taken by this very process.
  void add_client(const std::shared_ptr<ControlClient>& client);
  std::shared_ptr<ControlClient> client(const std::string& name, Rank rank);
  void remove_client(const ControlClient& client);

  // ---- leaving
  void endpoint_came();
  /// True if it was the last of this process.
  bool endpoint_went();
  /// Waits until no communicator of this process needs it any more, or an endpoint has come. False at the deadline, or
  /// `after_failure` seconds after all those that still need it have failed.
  bool wait_until_through(Deadline deadline, double after_failure);
  /// A place in a communicator that still needs this process; null if there is none.
  std::shared_ptr<ControlClient> unfinished();
  /// A mismatch that became known after the rank's own leave() had returned; the last leave() of the process tells it.
  struct Unheard {
    Rank rank = 0, ranks = 0;
    std::string mismatch;
  };
  /// The first one is kept.
  void add_unheard(Unheard unheard);
  std::optional<Unheard> take_unheard();

  // ---- deaths of processes of this host; control thread only
  using Watch = uint64_t;
  /// Calls `on_death` once that process has died, later even if it is dead now; never where the kernel cannot tell.
  Watch watch_process(uint32_t process, uint64_t started, EventLoop::Task on_death);
  void unwatch_process(Watch& watch);

 private:
  /// What this process holds of one communicator.
  struct Entry {
    std::shared_ptr<RendezvousServer> server;
    std::map<Rank, std::shared_ptr<ControlClient>> clients;
  };
  struct Watched {
    uint32_t process;
    uint64_t started;
    Fd fd;
    EventLoop::Id watch = 0;
    std::map<Watch, EventLoop::Task> tasks;
  };

  ControlThread();
  Entry& entry(const Key& key);
  void tidy(const std::string& name);
  bool through() const;
  bool only_failed_left() const;
  void process_died(uint32_t process);

  const pid_t process_;
  EventLoop loop_;
  Acceptor acceptor_;
  Fd tcp_, unix_;
  Member home_;
  std::optional<Error> no_addresses_;
  Watch next_watch_ = 1;
  std::map<uint32_t, Watched> watched_;  // by process id

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<ConnectionHandler>> handlers_;
  std::map<std::string, Entry> entries_;
  int endpoints_ = 0;
  std::optional<Unheard> unheard_;
};

}  // namespace tutti::control
