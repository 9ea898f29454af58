// The network as the executor of a device uses it: transports of its own, beside those of calls in host memory, since
// another thread drives them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/fabric.hpp"
#include "exec/device_module.hpp"

namespace tutti::comm {

class EnqueuedCalls;

class DeviceNetwork final : public exec::Network {
 public:
  /// Messages take the transport that `fabric` uses for the peer. Links are made within `link_timeout` seconds.
  DeviceNetwork(control::Endpoint& endpoint, Fabric& fabric, EnqueuedCalls& calls, double link_timeout);
  ~DeviceNetwork() override;

  void keep(std::shared_ptr<const void> memory) override { kept_.push_back(std::move(memory)); }
  transports::Transport& engine_to(Rank peer) override;
  link::OutLink connect_out(Rank peer, uint32_t link_lane) override;
  link::InLink connect_in(Rank peer, uint32_t link_lane) override;
  const std::vector<transports::Transport*>& engines() const override { return engines_; }
  void failed(const Status& status, uint64_t call) override;

 private:
  class Services;
  Fabric& fabric_;
  EnqueuedCalls& calls_;
  const double link_timeout_;
  std::unique_ptr<Services> services_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::map<std::string, std::unique_ptr<transports::Transport>> transports_;  // by name; these go before kept_
  std::vector<transports::Transport*> engines_;
};

}  // namespace tutti::comm
