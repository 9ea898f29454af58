#include "control/status/slow_ranks.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/median.hpp"

namespace tutti::control {
namespace {

/// The place of a call in a rank's timing.
std::optional<size_t> place_of(const RankTiming& timing, uint64_t number) {
  const auto at = std::find(timing.numbers.begin(), timing.numbers.end(), number);
  const auto place = static_cast<size_t>(at - timing.numbers.begin());
  if (place >= std::min({timing.numbers.size(), timing.left.size(), timing.in_calls.size()})) return std::nullopt;
  return place;
}

/// The last call of which all tell; 0: there is none.
uint64_t last_common(const std::vector<const RankTiming*>& ranks) {
  uint64_t last = 0;
  for (const uint64_t number : ranks.front()->numbers) {
    const bool common =
        std::all_of(ranks.begin(), ranks.end(), [&](const RankTiming* r) { return place_of(*r, number); });
    if (common) last = std::max(last, number);
  }
  return last;
}

}  // namespace

void SlowRanks::Slice::add(const Slice& other) {
  span += other.span;
  calls += other.calls;
  late.resize(other.late.size());
  for (size_t i = 0; i < late.size(); ++i) late[i] += other.late[i];
}

void SlowRanks::take(const std::vector<const RankTiming*>& ranks) {
  if (ranks.size() < 2) return;
  const uint64_t number = last_common(ranks);
  if (number <= number_) return;
  std::vector<double> between;  // calls, by rank
  std::vector<Mark> marks;
  for (const RankTiming* rank : ranks) {
    const size_t place = *place_of(*rank, number);
    const Mark now{.left = rank->left[place], .in_calls = rank->in_calls[place], .thread = rank->thread};
    const Mark then = marks.size() < marks_.size() ? marks_[marks.size()] : Mark{};
    marks.push_back(now);
    const uint64_t span = now.left - then.left, in_calls = now.in_calls - then.in_calls;
    const bool follows = then.left > 0 && now.left > then.left && now.thread == then.thread && in_calls <= span;
    if (follows) between.push_back(static_cast<double>(span - in_calls) / 1e9);
  }
  const double span = marks_.empty() ? 0 : static_cast<double>(marks.front().left - marks_.front().left) / 1e9;
  Slice slice{.span = span, .calls = static_cast<double>(number - number_), .late = {}};
  marks_ = std::move(marks);
  number_ = number;
  if (between.size() < ranks.size()) return;  // calls by other threads than before
  const Medians medians(between);
  for (const double one : between) slice.late.push_back(one - medians.of_others(one));
  push(0, std::move(slice));
}

void SlowRanks::push(size_t level, Slice slice) {
  if (level == 0) {
    merging_.add(slice);
    if (++merged_ == kMerged) {
      merged_ = 0;
      push(1, std::exchange(merging_, {}));
    }
  }
  levels_[level].push_back(std::move(slice));
  if (levels_[level].size() > kSlices) levels_[level].pop_front();
}

bool SlowRanks::is_slow(const Slices& slices, size_t rank, SlowRank& found) const {
  if (slices.size() < kSlices) return false;
  std::vector<double> lost;
  double late = 0, span = 0, calls = 0;
  for (const Slice& slice : slices) {
    lost.push_back(slice.late[rank] / slice.span);
    late += slice.late[rank];
    span += slice.span;
    calls += slice.calls;
  }
  const double enough = std::max(least_lost_, Medians(lost).of_all() / 2);
  const auto hits = std::count_if(lost.begin(), lost.end(), [&](double one) { return one >= enough; });
  found = {.rank = static_cast<Rank>(rank), .lost = late / span, .late_by = late / calls, .seconds = span};
  return hits >= static_cast<ptrdiff_t>(kHits) && found.late_by >= kLeastLate;
}

std::vector<SlowRank> SlowRanks::found() const {
  std::vector<SlowRank> all;
  const size_t ranks = marks_.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    SlowRank one;
    if (std::any_of(levels_.begin(), levels_.end(), [&](const Slices& of) { return is_slow(of, rank, one); })) {
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace tutti::control
