// The network as a backend other than the host's uses it: transports of its own, beside those of calls in host memory,
// since another thread drives them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/fabric.hpp"
#include "exec/backend.hpp"

namespace tutti::comm {

class EnqueuedCalls;

class BackendNetwork final : public exec::Network {
 public:
  /// Messages take the transport that `fabric` uses for the peer. Links are made within `link_timeout` seconds. `name`:
  /// of the backend.
  BackendNetwork(control::Endpoint& endpoint, Fabric& fabric, EnqueuedCalls* calls, const std::string& name,
                 double link_timeout);
  ~BackendNetwork() override;

  bool has_other_hosts() const override;
  void keep(std::shared_ptr<const void> memory) override { kept_.push_back(std::move(memory)); }
  transports::Transport& transport_to(Rank peer) override;
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane) override;
  const std::vector<transports::Transport*>& engines() const override { return engines_; }
  void failed(const Status& status, uint64_t call) override;

 private:
  class Services;
  control::Endpoint& endpoint_;
  Fabric& fabric_;
  EnqueuedCalls* const calls_;  // null: the calling threads drive the calls, and report what fails
  const double link_timeout_;
  std::unique_ptr<Services> services_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::map<std::string, std::unique_ptr<transports::Transport>> transports_;  // by name; these go before kept_
  std::vector<transports::Transport*> engines_;
};

}  // namespace tutti::comm
