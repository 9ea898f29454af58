// How staging slots are filled: by ordinary stores, or past the cache.
//
// A slot's lines are in the cores of those who read it last. Where these share a cache with the writer, ordinary stores
// are best: readers find the bytes there. Where they do not, each line that is stored to must first be given up on the
// other side, which took 15 times as long as streaming the bytes to memory, from where the readers get them as fast as
// from a far cache (bench/results/tried.md). Which it is differs from peer to peer, and changes while a program runs,
// where a virtual machine is moved between cores. So the writer times some of its own stores, and chooses.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/env.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {

/// The choice for stages with the same readers. Used by the thread that runs their lanes.
class StoreChoice {
  using Clock = std::chrono::steady_clock;

 public:
  /// Messages of fewer bytes are not worth a look at the clock.
  static constexpr uint64_t kFrom = MachineConstants::streamed_from;

  /// Is streaming better, where ordinary stores take so many seconds a byte?
  static bool pays(double each) {
    constexpr double kStreamed = 0.05e-9;  // what a byte that is streamed takes at most, nearly everywhere
    return each > kStreamed + machine_constants().streamed_gain;
  }

  /// A message begins. Returns whether it is streamed.
  bool next(uint64_t bytes) {
    ++messages_;
    if (probing_) ordinary_ += bytes;
    return streams();
  }
  bool streams() const { return streams_ && !probing_; }
  /// Should the message that has begun be timed?
  bool timed() const { return !forced_ && (messages_ % kTimed == 0 || differing_ > 0 || decides()); }
  void took(Clock::time_point begin, Clock::time_point end, uint64_t bytes) {
    const double each = std::chrono::duration<double>(end - begin).count() / static_cast<double>(bytes);
    if (streams()) {
      if (end >= next_probe_) probing_ = true, ordinary_ = 0, probe_ = end;
    } else if (!probing_ || decides()) {
      judge(pays(each), end);
    }
  }

 private:
  static constexpr uint32_t kTimed = 8;      ///< of so many messages one is timed
  static constexpr uint32_t kDiffering = 3;  ///< messages in a row that change the choice
  static constexpr Clock::duration kProbed = std::chrono::milliseconds(200);
  static constexpr int kRarely = 20;  ///< times as long as a probe are between two, at least: messages may be rare

  /// A probe has gone round the ring once: from here on, the slots were filled by ordinary stores the last time, too.
  bool decides() const { return probing_ && ordinary_ > machine_constants().long_ring; }
  /// `slow`: what an ordinary store took speaks for streaming.
  void judge(bool slow, Clock::time_point now) {
    if (slow != streams_ && ++differing_ < kDiffering) return;
    next_probe_ = now + (probing_ ? std::max(kProbed, kRarely * (now - probe_)) : kProbed);
    streams_ = slow;
    differing_ = 0;
    probing_ = false;
  }

  const bool forced_ = env().stream_staging.has_value();
  bool streams_ = env().stream_staging.value_or(false);
  bool probing_ = false;    ///< stores are ordinary for a while, to see whether they still take longer
  uint32_t messages_ = 0;   ///< that have begun
  uint32_t differing_ = 0;  ///< in a row, that speak against the choice
  uint64_t ordinary_ = 0;   ///< bytes stored since the probe began
  Clock::time_point probe_, next_probe_;
};

}  // namespace tutti::exec
