#include "trace/ring.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace tutti::trace {
namespace {

constexpr int kKindAt = 61;  // in the word that has the time, which takes 73 years to reach these bits
constexpr uint64_t kTimeMask = (uint64_t{1} << kKindAt) - 1;

std::atomic_ref<uint64_t> shared(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word));  // of a const object it is only read
}

}  // namespace

Ring::Ring() : words_(static_cast<uint64_t*>(std::calloc(kEvents * kWords, sizeof(uint64_t)))) {
  if (words_ == nullptr) throw std::bad_alloc();
}

void Ring::write(const Event& event) {
  const uint64_t number = written_;
  uint64_t* const slot = &words_[number % kEvents * kWords];
  // Release: who reads one of these words also sees that `number` events were written before.
  shared(slot[0]).store(event.at | static_cast<uint64_t>(event.kind) << kKindAt, std::memory_order_release);
  shared(slot[1]).store(event.call, std::memory_order_release);
  shared(slot[2]).store(event.first, std::memory_order_release);
  shared(slot[3]).store(event.second, std::memory_order_release);
  shared(written_).store(number + 1, std::memory_order_release);
}

Ring::Events Ring::read() const {
  const uint64_t end = shared(written_).load(std::memory_order_acquire);
  uint64_t begin = end < kEvents ? 0 : end - kEvents;
  std::vector<Event> events;
  events.reserve(end - begin);
  for (uint64_t number = begin; number < end; ++number) {
    const uint64_t* const slot = &words_[number % kEvents * kWords];
    const uint64_t head = shared(slot[0]).load(std::memory_order_acquire);
    events.push_back({.kind = static_cast<Event::Kind>(head >> kKindAt),
                      .at = head & kTimeMask,
                      .call = shared(slot[1]).load(std::memory_order_acquire),
                      .first = shared(slot[2]).load(std::memory_order_acquire),
                      .second = shared(slot[3]).load(std::memory_order_acquire)});
  }
  // Event `now` may be half written, in the place of the one that came kEvents before it.
  const uint64_t now = shared(written_).load(std::memory_order_acquire);
  const uint64_t whole = now < kEvents ? 0 : now - kEvents + 1;
  const uint64_t torn = std::min<uint64_t>(whole > begin ? whole - begin : 0, events.size());
  events.erase(events.begin(), events.begin() + static_cast<ptrdiff_t>(torn));
  return {.earlier = begin + torn, .last = std::move(events)};
}

}  // namespace tutti::trace
