// Memory of peers, and what this rank exposes to them, over one port of a device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transports/remote_memory.hpp"
#include "transports/verbs/nic.hpp"
#include "transports/verbs/rdma_device.hpp"

namespace tutti::transports::verbs {

/// Opens the port once more for what peers access: another protection domain. So the key of what this rank only sends
/// from opens nothing to a peer, and the thread that accepts peers shares nothing with the one that makes calls.
class RdmaMemory final : public RemoteMemory {
 public:
  RdmaMemory(const char* transport, std::unique_ptr<Nic> own, std::unique_ptr<Nic> exposing);

  const std::string& name() const override { return name_; }
  std::shared_ptr<const void> expose(void* memory, uint64_t bytes, RemoteKey& key) override;
  std::unique_ptr<RemoteQueue> make_queue(Rank peer) override;
  std::string accept(Rank peer, const std::string& offer) override;

 private:
  class Exposed;

  const std::string name_;
  RdmaDevice own_;
  std::mutex mutex_;  // guards the rest
  const std::unique_ptr<Nic> exposing_;
  std::map<Rank, std::unique_ptr<Queue>> accepted_;
  uint64_t last_queue_ = 0;
};

}  // namespace tutti::transports::verbs
