#include "rma/target.hpp"

#include <utility>

#include "link/mapped_memory.hpp"
#include "rma/agent.hpp"
#include "transports/pod_text.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {

std::shared_ptr<Target> Target::open(transports::Wireup& wireup) {
  std::shared_ptr<Target> target(new Target);
  const std::weak_ptr<Target> weak = target;
  wireup.serve(kMapService, [weak](Rank, const std::string& request) {
    const auto self = weak.lock();
    return self == nullptr ? transports::Wireup::Reply{"the rank has left", Fd()} : self->answer(request);
  });
  wireup.receive_streams(kStreamLabel, [weak](Rank from, Fd stream) {
    if (auto self = weak.lock()) Agent::of_this_process().serve(std::move(stream), from, std::move(self));
  });
  return target;
}

/// Its services stay: a slower rank, which maps this one's part while this one leaves already, is to get an answer.
void Target::close() {
  const std::lock_guard lock(mutex_);
  parts_.clear();
  device_ = nullptr;
  closed_ = true;
}

void Target::use(transports::RemoteMemory& device) {
  const std::lock_guard lock(mutex_);
  device_ = &device;
}

std::string Target::accept(Rank rank, const std::string& offer) {
  const std::lock_guard lock(mutex_);
  if (device_ == nullptr) throw Error(Code::Unsupported, "it has no device for windows");
  return device_->accept(rank, offer);
}

bool Target::admit(Rank rank) {
  const std::lock_guard lock(mutex_);
  if (closed_ || !admitted_.insert(rank).second) return false;
  served_.store(true, std::memory_order_release);
  return true;
}

void Target::end(Rank rank) {
  const std::lock_guard lock(mutex_);
  ended_.insert(rank);
}

bool Target::has_ended(Rank rank) {
  const std::lock_guard lock(mutex_);
  return ended_.contains(rank);
}

void Target::expose(uint64_t window, const Exposed& part) {
  const std::lock_guard lock(mutex_);
  parts_[window] = part;
}

void Target::withdraw(uint64_t window) {
  const std::lock_guard lock(mutex_);
  parts_.erase(window);
}

transports::Wireup::Reply Target::answer(const std::string& bytes) {
  MapRequest request;
  if (!transports::unpack(bytes, request)) return {"the request is invalid", Fd()};
  bool exposed = false;
  with(request.window, [&](const Exposed& part) {
    exposed = request.region != 0 && (request.region == part.region || request.region == part.signal_region);
  });
  if (!exposed) return {"there is no such window", Fd()};
  link::SharedMemory::Exported region = link::SharedMemory::of_this_process().export_region(request.region);
  if (!region.fd) return {"no descriptor is left; raise ulimit -n", Fd()};
  return {transports::pack(MapReply{.bytes = region.bytes}), std::move(region.fd)};
}

}  // namespace tutti::rma
