// The control thread. Each process has one; it sleeps unless something arrives. It owns all sockets of the control
// plane, accepts and authenticates connections, and runs the rendezvous servers and clients of this process.
//
// It starts at first use and runs until the process ends. Nothing it uses is ever destroyed, so it may outlive main().
// A forked child has no such thread: it cannot use what it inherited, and its own first use starts a new thread.
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
#include "control/status/status_server.hpp"

namespace tutti::control {

class RendezvousServer;
class ControlClient;
class Trunks;

class ControlThread {
 public:
  /// The control thread of this process. Throws Error(SystemError) if it cannot start.
  static ControlThread& get();

  EventLoop& loop() { return loop_; }
  Acceptor& acceptor() { return acceptor_; }
  /// This process as a member: its identity and the addresses where it listens.
  const Member& local_member() const { return local_member_; }
  /// Throws the reason if this process has no address or port to offer (TUTTI_INTERFACE, TUTTI_PORTS), or if its
  /// settings name none that can answer (check_status_settings()). In the first case `local_member()` has only the
  /// loopback address, which is enough to inform ranks of this host.
  void check_settings() const;
  /// Throws Error(InvalidUsage) in a child that was forked after this thread started.
  void check_not_forked() const;
  bool forked() const;

  // ---- objects of this process; any thread
  void add_handler(std::shared_ptr<ConnectionHandler> handler);
  void remove_handler(const Key& key);

  /// False if this process has a server with that key.
  bool add_server(const Key& key, std::shared_ptr<RendezvousServer> server);
  std::shared_ptr<RendezvousServer> server(const std::string& name);
  /// The rendezvous server of a split, which is opened if there is none. Throws Error(InvalidArgument) if the
  /// communicator of this name does not belong to `trunks`. Control thread.
  std::shared_ptr<RendezvousServer> server_of_split(const std::string& name, const std::shared_ptr<Trunks>& trunks);
  void remove_server(const std::string& name);
  /// Called when a rendezvous server is no longer busy, or a communicator has failed.
  void notify();
  /// If this process holds the rendezvous server of that name and it refuses all ranks: waits until `ranks` ranks have
  /// received the refusal, since the end of this process would lose it.
  void wait_until_informed(const std::string& name, size_t ranks, Deadline deadline);

  /// Throws Error(InvalidArgument) if this process already holds that rank.
  void add_client(const std::shared_ptr<ControlClient>& client);
  std::shared_ptr<ControlClient> client(const std::string& name, Rank rank);
  /// All ranks of a communicator that this process holds.
  std::vector<std::shared_ptr<ControlClient>> clients(const std::string& name);
  /// Those of all communicators.
  std::vector<std::shared_ptr<ControlClient>> all_clients();
  void remove_client(const ControlClient& client);
  /// The rendezvous servers of this process.
  std::vector<std::shared_ptr<RendezvousServer>> servers();

  /// The trunks of the communicator with this key, which no split made.
  std::shared_ptr<Trunks> trunks(const Key& key);
  std::shared_ptr<Trunks> trunks(const std::string& name);
  /// Forgets the communicator of this name if this process has no server, no client and no trunk of it.
  void remove_if_unused(const std::string& name);

  // ---- leaving
  void endpoint_opened();
  /// True if it was the last endpoint of this process.
  bool endpoint_closed();
  /// Waits until no communicator needs this process any more, or a new endpoint opens. False at the deadline, or when
  /// every communicator that still needs it has failed and the other ranks know that, for which it waits
  /// `after_failure` seconds at most.
  bool wait_until_idle(Deadline deadline, double after_failure);
  /// A client of a communicator that still needs this process; null if there is none.
  std::shared_ptr<ControlClient> unfinished();
  /// A mismatch found after the rank's own leave() had returned. The last leave() of the process reports it.
  struct LateMismatch {
    Rank rank = 0, ranks = 0;
    std::string mismatch;
  };
  /// Keeps the first one.
  void add_late_mismatch(LateMismatch mismatch_is_late);
  std::optional<LateMismatch> take_late_mismatch();

  // ---- deaths of processes on this host; control thread only
  using Watch = uint64_t;
  /// Calls `on_death` after that process has died, from the loop even if it is dead already. Never calls it if the
  /// kernel has no pidfd.
  Watch watch_process(uint32_t process, uint64_t started, EventLoop::Task on_death);
  void unwatch_process(Watch& watch);

 private:
  /// The server and clients of one communicator in this process, and the trunks that its splits use.
  struct Entry {
    std::shared_ptr<RendezvousServer> server;
    std::map<Rank, std::shared_ptr<ControlClient>> clients;
    std::weak_ptr<Trunks> trunks;
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
  void erase_if_unused(const std::string& name);
  bool idle() const;
  bool only_failed_remain() const;
  bool failures_are_known() const;
  void on_process_died(uint32_t process);

  const pid_t process_;
  EventLoop loop_;
  Acceptor acceptor_;
  Fd tcp_, unix_;
  StatusServer status_{*this};
  Member local_member_;
  std::optional<Error> refused_;
  Watch next_watch_ = 1;
  std::map<uint32_t, Watched> watched_;  // by process id

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<ConnectionHandler>> handlers_;
  std::map<std::string, Entry> entries_;
  int endpoints_ = 0;
  std::optional<LateMismatch> late_mismatch_;
};

}  // namespace tutti::control
