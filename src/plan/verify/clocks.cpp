#include "plan/verify/clocks.hpp"

#include <algorithm>
#include <utility>

#include "plan/verify/reject.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan::verifier {

Clocks::Clocks(uint32_t lanes, std::span<const uint32_t> watched)
    : width_(static_cast<uint32_t>(watched.size())),
      times_(lanes),
      column_(lanes, kNone),
      clocks_(size_t{lanes} * width_),
      current_(lanes, kNoSnapshot) {
  for (uint32_t i = 0; i < width_; ++i) column_[watched[i]] = i;
}

Snapshot Clocks::keep(uint32_t lane, uint32_t readers) {
  Snapshot& current = current_[lane];
  if (current == kNoSnapshot) {
    if (free_.empty()) {
      if ((kept_.size() + 1) * width_ * sizeof(uint32_t) > kMaxClockBytes) {
        too_large("the proof would take more than {} MiB of memory for the order of the messages under way",
                  kMaxClockBytes >> 20);
      }
      free_.push_back(static_cast<Snapshot>(kept_.size()));
      kept_.emplace_back(width_);
      readers_.push_back(0);
    }
    current = free_.back();
    free_.pop_back();
    std::copy_n(clock(lane), width_, kept_[current].begin());
    readers_[current] = 1;
  }
  readers_[current] += readers;
  return current;
}

void Clocks::join(uint32_t lane, Snapshot snapshot, uint32_t other, uint32_t time) {
  uint32_t* const mine = clock(lane);
  const uint32_t* const theirs = kept_[snapshot].data();
  const size_t count = width_;  // a local copy, so that the compiler can vectorize the loop
  for (size_t i = 0; i < count; ++i) mine[i] = std::max(mine[i], theirs[i]);
  if (const uint32_t column = column_[other]; column != kNone) mine[column] = std::max(mine[column], time);
  if (current_[lane] != kNoSnapshot) drop(std::exchange(current_[lane], kNoSnapshot));
}

void Clocks::drop(Snapshot snapshot) {
  if (--readers_[snapshot] == 0) free_.push_back(snapshot);
}

}  // namespace tutti::plan::verifier
