#include "transports/verbs/rdma_memory.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "transports/pod_text.hpp"
#include "transports/verbs/rdma_queue.hpp"

namespace tutti::transports::verbs {

class RdmaMemory::Exposed {
 public:
  Exposed(RdmaMemory& owner, void* memory, uint64_t bytes) : owner_(owner) {
    const std::lock_guard lock(owner_.mutex_);
    region_ = owner_.exposing_->register_memory(memory, bytes, RegionUse::Window);
  }
  ~Exposed() {
    const std::lock_guard lock(owner_.mutex_);
    region_.reset();
  }
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;
  const Region& region() const { return *region_; }

  Registration sends;  // programs often put from there

 private:
  RdmaMemory& owner_;
  std::unique_ptr<Region> region_;
};

RdmaMemory::RdmaMemory(const char* transport, std::unique_ptr<Nic> own, std::unique_ptr<Nic> exposing)
    : name_(fmt::format("{}, {}", transport, own->info().name)), own_(std::move(own)), exposing_(std::move(exposing)) {}

std::shared_ptr<const void> RdmaMemory::expose(void* memory, uint64_t bytes, RemoteKey& key) {
  auto exposed = std::make_shared<Exposed>(*this, memory, bytes);
  try {
    exposed->sends = own_.memory().acquire(memory, bytes, MemoryUse::ReadWrite);
  } catch (const Error& error) {
    log_debug("{}; long puts from a window are copied", error.what());
  }
  key = {.address = exposed->region().address, .bytes = bytes, .key = exposed->region().remote_key};
  return exposed;
}

std::unique_ptr<RemoteQueue> RdmaMemory::make_queue(Rank peer) { return std::make_unique<RdmaQueue>(own_, peer); }

std::string RdmaMemory::accept(Rank peer, const std::string& offer) {
  const RdmaGreeting theirs = read_rdma_greeting(offer);
  const std::lock_guard lock(mutex_);
  accepted_.erase(peer);
  std::unique_ptr<Queue> queue = exposing_->make_queue({.receive_id = ++last_queue_ << 32, .access = PeerAccess::All});
  const NicInfo& info = exposing_->info();
  const RdmaGreeting mine{.nic = info.address,
                          .queue = queue->address(),
                          .reads = std::min(theirs.reads, info.max_reads),
                          .atomics = info.atomics};
  queue->connect(theirs.nic, theirs.queue, mine.reads);
  accepted_[peer] = std::move(queue);
  return pack(mine);
}

}  // namespace tutti::transports::verbs
