// What a rank's calls on one communicator have come to, by collective (or call on windows) and size: for those who
// watch it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call.hpp"

namespace tutti::comm {

/// Of one collective, or call on windows, and size class. One thread at a time adds; any thread reads. A cache line.
struct alignas(64) CallTotal {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> bytes{0};              ///< of their counts
  std::atomic<uint64_t> sent{0}, received{0};  ///< bytes of messages
  std::atomic<uint64_t> waited{0};             ///< nanoseconds in long waits, of all calls
  std::atomic<uint64_t> traced_calls{0};       ///< of which it is known …
  std::atomic<uint64_t> traced{0};             ///< … how many nanoseconds they lasted

  [[gnu::always_inline]] static void add(std::atomic<uint64_t>& to, uint64_t more) {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
};

class CallTotals {
 public:
  static constexpr size_t kClasses = 65;  ///< class c: bytes from 2^(c-1) to 2^c - 1; class 0: none

  /// That of a call of the rank. Only the thread that makes calls.
  CallTotal& of(const CallSpec& spec) {
    if (spec.is_control()) return control_;
    const size_t row =
        spec.one_sided ? size_t{kCollectives} + static_cast<size_t>(spec.op) : static_cast<size_t>(spec.collective);
    return at(row, spec.is_vector ? 0 : spec.bytes());
  }
  /// Calls that have ended, by Collective.
  std::vector<uint64_t> calls() const {
    std::vector<uint64_t> all(kCollectives);
    each([&](Collective collective, size_t, const CallTotal& total) {
      all[static_cast<size_t>(collective)] += total.calls.load(std::memory_order_relaxed);
    });
    return all;
  }

  /// A send or receive has ended.
  void add_transfer(const CallSpec& spec) {
    CallTotal& total = of(spec);
    const uint64_t bytes = spec.bytes();
    CallTotal::add(total.calls, 1);
    CallTotal::add(total.bytes, bytes);
    CallTotal::add(spec.sends ? total.sent : total.received, bytes);
  }

  /// A call on a window has ended.
  void add_one_sided(OneSidedCall call, uint64_t bytes) {
    CallTotal& total = at(kCollectives + static_cast<size_t>(call), bytes);
    CallTotal::add(total.calls, 1);
    if (bytes == 0) return;
    CallTotal::add(total.bytes, bytes);
    CallTotal::add(call == OneSidedCall::Get ? total.received : total.sent, bytes);
  }

  /// visit(collective, class, total) for those that have calls. Any thread.
  template <class Visit>
  void each(Visit&& visit) const {
    for (size_t i = 0; i < kOfCollectives; ++i) {
      const CallTotal* const total = totals_[i].load(std::memory_order_acquire);
      if (total != nullptr) visit(static_cast<Collective>(i / kClasses), i % kClasses, *total);
    }
  }
  /// Likewise visit(call, class, total) of calls on windows.
  template <class Visit>
  void each_on_windows(Visit&& visit) const {
    for (size_t i = kOfCollectives; i < totals_.size(); ++i) {
      const CallTotal* const total = totals_[i].load(std::memory_order_acquire);
      if (total != nullptr) visit(static_cast<OneSidedCall>(i / kClasses - kCollectives), i % kClasses, *total);
    }
  }
  /// The sum of one member over all collectives and transfers.
  uint64_t sum(std::atomic<uint64_t> CallTotal::*member) const {
    uint64_t all = 0;
    each([&](Collective, size_t, const CallTotal& total) { all += (total.*member).load(std::memory_order_relaxed); });
    return all;
  }
  /// The same over all calls on windows.
  uint64_t sum_on_windows(std::atomic<uint64_t> CallTotal::*member) const {
    uint64_t all = 0;
    each_on_windows(
        [&](OneSidedCall, size_t, const CallTotal& total) { all += (total.*member).load(std::memory_order_relaxed); });
    return all;
  }

  CallTotals() = default;
  ~CallTotals() {
    for (auto& place : totals_) delete place.load(std::memory_order_relaxed);
  }
  CallTotals(const CallTotals&) = delete;
  CallTotals& operator=(const CallTotals&) = delete;

 private:
  static constexpr size_t kOfCollectives = kCollectives * kClasses;
  CallTotal& at(size_t row, uint64_t bytes) {
    std::atomic<CallTotal*>& place = totals_[row * kClasses + static_cast<size_t>(std::bit_width(bytes))];
    CallTotal* const known = place.load(std::memory_order_relaxed);
    return known != nullptr ? *known : make(place);
  }
  static CallTotal& make(std::atomic<CallTotal*>& place) {
    place.store(new CallTotal, std::memory_order_release);
    return *place.load(std::memory_order_relaxed);
  }

  CallTotal control_;  // of calls that move no data, for which nobody asks
  std::array<std::atomic<CallTotal*>, kOfCollectives + kOneSidedCalls * kClasses> totals_{};
};

}  // namespace tutti::comm
