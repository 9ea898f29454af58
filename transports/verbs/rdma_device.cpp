#include "transports/verbs/rdma_device.hpp"

#include <poll.h>
#include <sched.h>

#include <ctime>

#include "base/format.hpp"
#include "base/log.hpp"
#include "transports/verbs/rdma_queue.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint64_t kWordBytes = 4096;  // more than the words have

}  // namespace

RdmaDevice::RdmaDevice(std::unique_ptr<Nic> nic)
    : nic_(std::move(nic)), memory_(*nic_, nullptr, 0), words_(*nic_, kWordBytes, RegionUse::Data) {}

void RdmaDevice::remove(const RdmaQueue& queue) {
  std::erase_if(queues_, [&](const auto& entry) { return entry.second == &queue; });
}

bool RdmaDevice::poll() {
  constexpr int kAtOnce = 32;
  Completion completions[kAtOnce];
  const int count = nic_->poll(completions, kAtOnce);
  if (count < 0) throw_error(Code::SystemError, "{} reports no completions any more", info().name);
  for (int i = 0; i < count; ++i) {
    const auto queue = queues_.find(completions[i].id >> 32);
    if (queue != queues_.end()) queue->second->complete(completions[i]);
  }
  return count > 0;
}

/// Spins, then yields, then sleeps until the next completion.
void RdmaDevice::pause(uint32_t turn, RemoteWait& wait) {
  constexpr uint32_t kSpins = 200, kYields = 2000, kCheckEvery = 64;
  constexpr long kLongest = 1'000'000;  // nanoseconds
  if (turn < kSpins) return;
  const bool sleeps = turn >= kSpins + kYields && nic_->descriptor() >= 0;
  if (sleeps || turn % kCheckEvery == 0) wait.check();
  if (!sleeps) {
    ::sched_yield();
    return;
  }
  check_events();
  nic_->arm();
  if (poll()) return;  // what came before it was armed raises no event
  const timespec limit{0, kLongest};
  pollfd entry{nic_->descriptor(), POLLIN, 0};
  ::ppoll(&entry, 1, &limit, nullptr);
}

/// A port that is down may come back: the device tries for some seconds.
void RdmaDevice::check_events() {
  for (Event event = nic_->next_event(); !event.text.empty(); event = nic_->next_event()) {
    if (event.fatal) throw_error(Code::SystemError, "the device of {} has failed: {}", info().name, event.text);
    log_warn("windows, {}: {}", info().name, event.text);
  }
}

}  // namespace tutti::transports::verbs
