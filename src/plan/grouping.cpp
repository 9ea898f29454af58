#include "plan/grouping.hpp"

#include <algorithm>
#include <unordered_map>

namespace tutti::plan {

Grouping::Grouping(std::span<const Rank> labels) {
  std::unordered_map<Rank, Rank> numbers;
  std::vector<Rank> sizes;
  for (const Rank label : labels) {
    const auto [found, is_new] = numbers.emplace(label, static_cast<Rank>(sizes.size()));
    if (is_new) sizes.push_back(0);
    group_.push_back(found->second);
    place_.push_back(sizes[at(found->second)]++);
  }
  first_.push_back(0);
  for (const Rank size : sizes) first_.push_back(first_.back() + at(size));
  members_.resize(labels.size());
  for (Rank r = 0; r < ranks(); ++r) members_[first_[at(group_of(r))] + at(place_of(r))] = r;
  if (sizes.empty()) return;
  smallest_ = *std::min_element(sizes.begin(), sizes.end());
  largest_ = *std::max_element(sizes.begin(), sizes.end());
}

}  // namespace tutti::plan
