#include "plan/verify/clocks.hpp"

#include <algorithm>
#include <utility>

#include "plan/verify/reject.hpp"
#include "plan/verify/structure.hpp"

namespace tutti::plan::verifier {

Clocks::Clocks(uint32_t lanes) : lanes_(lanes), clocks_(size_t{lanes} * lanes), current_(lanes, kNoSnapshot) {}

Snapshot Clocks::keep(uint32_t lane, uint32_t readers) {
  Snapshot& current = current_[lane];
  if (current == kNoSnapshot) {
    if (free_.empty()) {
      if ((kept_.size() + 1) * lanes_ * sizeof(uint32_t) > kMaxClockBytes) {
        reject("the plans are too large to prove: too many messages under way at one time");
      }
      free_.push_back(static_cast<Snapshot>(kept_.size()));
      kept_.emplace_back(lanes_);
      readers_.push_back(0);
    }
    current = free_.back();
    free_.pop_back();
    std::copy_n(clock(lane), lanes_, kept_[current].begin());
    kept_[current][lane] = 0;
    readers_[current] = 1;
  }
  readers_[current] += readers;
  return current;
}

void Clocks::join(uint32_t lane, Snapshot snapshot, uint32_t other, uint32_t time) {
  uint32_t* const mine = clock(lane);
  const uint32_t* const theirs = kept_[snapshot].data();
  const size_t count = lanes_;  // a copy, or the compiler must think that the loop writes to it and not use vectors
  for (size_t i = 0; i < count; ++i) mine[i] = std::max(mine[i], theirs[i]);
  mine[other] = std::max(mine[other], time);
  if (current_[lane] != kNoSnapshot) drop(std::exchange(current_[lane], kNoSnapshot));
}

void Clocks::drop(Snapshot snapshot) {
  if (--readers_[snapshot] == 0) free_.push_back(snapshot);
}

}  // namespace tutti::plan::verifier
