// The trunks of one process for a communicator and its splits, which share them (control/trunk.hpp).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/secret.hpp"
#include "base/socket.hpp"
#include "control/messages.hpp"
#include "control/trunk.hpp"

namespace tutti::control {

class ControlThread;

/// The addresses at which this process reaches `member`.
std::vector<Address> addresses_of(const Member& member, const Member& local_member);

/// Belongs to the clients and rendezvous servers of these communicators in this process, until they are closed.
class Trunks : public std::enable_shared_from_this<Trunks> {
 public:
  /// `key` is that of the communicator that no split made. Use ControlThread::trunks().
  Trunks(ControlThread& control, const Key& key);
  ~Trunks();
  Trunks(const Trunks&) = delete;
  Trunks& operator=(const Trunks&) = delete;

  /// The trunk to the process of `member`, where the caller then opens one channel; dials it if there is none. Any
  /// thread. Throws what dial() throws, or the Error with which the trunk is refused.
  std::shared_ptr<Trunk> to(const Member& member, WaitLimit limit);

  // ---- control thread
  /// Takes a trunk that a peer has dialed. Throws Error(SystemError), and leaves `fd`, if there are too many.
  void accept(Fd& fd);
  /// Held by each client.
  std::shared_ptr<const void> add_client();
  /// Held by a rendezvous server until its ranks are complete: a peer decides how many begin. Throws
  /// Error(SystemError) if there are many more than this process's own ranks can need.
  std::shared_ptr<const void> begin_server();

 private:
  using Process = std::pair<std::string, uint64_t>;  // host and nonce

  std::shared_ptr<const void> count(std::atomic<size_t>& what);
  void serve(const std::shared_ptr<Channel>& channel, const OpenChannel& request);

  ControlThread& control_;
  const Key key_;
  const std::string name_;
  std::mutex mutex_;
  std::map<Process, std::shared_ptr<Trunk>> dialed_;
  std::set<std::shared_ptr<Trunk>> accepted_;
  std::atomic<size_t> clients_{0}, incomplete_servers_{0};
};

}  // namespace tutti::control
