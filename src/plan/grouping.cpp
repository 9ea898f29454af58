#include "plan/grouping.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "base/format.hpp"

namespace tutti::plan {
namespace {

std::optional<Rank> number_in(std::string_view text) {
  Rank number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, number);
  if (failure != std::errc{} || end != last || number < 0) return std::nullopt;
  return number;
}

}  // namespace

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

std::vector<Rank> parse_labels(std::string_view words, Rank ranks, std::string_view source) {
  std::vector<Rank> labels;
  for (std::string_view rest = words;; rest.remove_prefix(rest.find(',') + 1)) {
    const auto label = number_in(rest.substr(0, rest.find(',')));
    if (!label) {
      throw_error(Code::InvalidArgument,
                  "{} is '{}'; it must be the size of a group, such as 4, or a label for every rank, such as 0,0,1,1",
                  source, words);
    }
    labels.push_back(*label);
    if (rest.find(',') == std::string_view::npos) break;
  }
  if (labels.size() == 1) {
    const Rank size = labels.front();
    if (size == 0) throw_error(Code::InvalidArgument, "{} is 0; a group has at least one rank", source);
    labels.clear();
    for (Rank r = 0; r < ranks; ++r) labels.push_back(r / size);
  }
  if (labels.size() == static_cast<size_t>(ranks)) return labels;
  throw_error(Code::InvalidArgument,
              "{} has labels for {} ranks where there are {}; the size of a group fits any number", source,
              labels.size(), ranks);
}

}  // namespace tutti::plan
