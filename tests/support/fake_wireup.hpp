// Wire-up for tests of transports, without a control plane: the ranks, threads or forked processes, find each other
// through abstract UNIX sockets, one per rank, each served by a thread. There is no authentication.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "transports/wireup.hpp"

namespace tutti::test {

class FakeWireup final : public transports::Wireup {
 public:
  /// All ranks name the same `job`, which no other test run on this machine may use at the time.
  FakeWireup(std::string job, Rank rank, Rank ranks);
  ~FakeWireup() override;
  FakeWireup(const FakeWireup&) = delete;
  FakeWireup& operator=(const FakeWireup&) = delete;

  Rank rank() const override { return rank_; }
  Rank ranks() const override { return ranks_; }
  const transports::ProcessId& process_id(Rank rank) const override;
  /// The other ranks are processes of their own.
  void set_apart() { elsewhere_ = everywhere, elsewhere_.nonce = ~everywhere.nonce, apart_ = true; }
  /// The other ranks are on hosts of their own.
  void set_hosts_apart() { elsewhere_ = everywhere, elsewhere_.host = "another host", apart_ = true; }
  void confirm_process(Rank, Deadline) override {}
  const std::string& name() const override { return job_; }

  /// `ways`, none of which is another network.
  std::vector<transports::Path> paths(Rank) const override { return ways; }
  /// A TCP connection through the loopback device.
  Fd open_stream(Rank peer, const std::string& label, Deadline deadline) override;
  std::optional<Fd> take_stream(Rank peer, const std::string& label) override;
  void receive_streams(const std::string& label, std::function<void(Rank from, Fd stream)> take) override;
  void serve(const std::string& name, Service service) override;
  Reply ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) override;

  /// What process_id() returns for all ranks; by default this host and this process.
  transports::ProcessId everywhere;
  std::vector<transports::Path> ways;  ///< what paths() returns

 private:
  void answer_calls();
  void answer(const Fd& caller);
  Fd call(Rank peer, Deadline deadline) const;

  const std::string job_;
  transports::ProcessId elsewhere_;
  bool apart_ = false;
  const Rank rank_, ranks_;
  Fd listener_, stop_;  // stop_: an eventfd
  std::mutex mutex_;
  std::map<std::pair<Rank, std::string>, Fd> arrived_;
  std::map<std::string, Service> services_;
  std::map<std::string, std::function<void(Rank, Fd)>> takers_;  // by label
  std::thread thread_;
};

}  // namespace tutti::test
