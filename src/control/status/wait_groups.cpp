#include "control/status/wait_groups.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace tutti::control {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

/// Strongly connected components, each after all that it leads to.
class Components {
 public:
  explicit Components(const std::vector<Nodes>& on)
      : on_(on), of_(on.size(), kNone), seen_(on.size(), kNone), low_(on.size(), 0) {
    for (uint32_t node = 0; node < on.size(); ++node) {
      if (seen_[node] == kNone) search(node);
    }
  }
  const std::vector<Nodes>& members() const { return members_; }
  uint32_t of(uint32_t node) const { return of_[node]; }

 private:
  /// Without recursion: chains may be as long as there are nodes.
  void search(uint32_t first) {
    enter(first);
    while (!path_.empty()) {
      auto& [node, next] = path_.back();
      if (next < on_[node].size()) {
        const uint32_t to = on_[node][next++];
        if (seen_[to] == kNone) {
          enter(to);
        } else if (of_[to] == kNone) {
          low_[node] = std::min(low_[node], seen_[to]);
        }
        continue;
      }
      const uint32_t done = node;
      path_.pop_back();
      if (!path_.empty()) low_[path_.back().first] = std::min(low_[path_.back().first], low_[done]);
      if (low_[done] == seen_[done]) close(done);
    }
  }
  void enter(uint32_t node) {
    seen_[node] = low_[node] = count_++;
    open_.push_back(node);
    path_.emplace_back(node, 0);
  }
  void close(uint32_t first) {
    Nodes& members = members_.emplace_back();
    uint32_t node = kNone;
    do {
      node = open_.back();
      open_.pop_back();
      of_[node] = static_cast<uint32_t>(members_.size() - 1);
      members.push_back(node);
    } while (node != first);
    std::sort(members.begin(), members.end());
  }

  const std::vector<Nodes>& on_;
  std::vector<uint32_t> of_, seen_, low_;
  uint32_t count_ = 0;
  Nodes open_;
  std::vector<std::pair<uint32_t, size_t>> path_;
  std::vector<Nodes> members_;
};

using Bits = std::vector<uint64_t>;

}  // namespace

std::vector<WaitGroup> wait_groups(const std::vector<Nodes>& on) {
  const Components components(on);
  const std::vector<Nodes>& all = components.members();
  const auto leaves = [&](size_t component) {
    return std::any_of(all[component].begin(), all[component].end(), [&](uint32_t node) {
      return std::any_of(on[node].begin(), on[node].end(), [&](uint32_t to) { return components.of(to) != component; });
    });
  };
  Nodes ends;  // components, in the order of their first nodes
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (!leaves(i)) ends.push_back(i);
  }
  std::sort(ends.begin(), ends.end(), [&](uint32_t a, uint32_t b) { return all[a].front() < all[b].front(); });

  std::vector<bool> is_end(all.size());
  for (const uint32_t end : ends) is_end[end] = true;
  std::vector<Bits> leads_to(all.size(), Bits((ends.size() + 63) / 64));
  for (size_t i = 0; i < ends.size(); ++i) leads_to[ends[i]][i / 64] |= uint64_t{1} << i % 64;
  std::map<std::pair<Bits, bool>, Nodes, std::greater<>>
      groups;  // a circle's own nodes come before those that wait for it
  for (uint32_t i = 0; i < all.size(); ++i) {
    Bits& bits = leads_to[i];
    for (const uint32_t node : all[i]) {
      for (const uint32_t to : on[node]) {
        const Bits& further = leads_to[components.of(to)];
        for (size_t word = 0; word < bits.size(); ++word) bits[word] |= further[word];
      }
    }
    if (is_end[i] && all[i].size() == 1) continue;
    Nodes& waiting = groups[{bits, is_end[i]}];
    waiting.insert(waiting.end(), all[i].begin(), all[i].end());
  }

  std::vector<WaitGroup> found;
  for (auto& [key, waiting] : groups) {
    std::sort(waiting.begin(), waiting.end());
    WaitGroup& group = found.emplace_back(WaitGroup{.waiting = std::move(waiting), .ends = {}});
    for (size_t i = 0; i < ends.size(); ++i) {
      if ((key.first[i / 64] >> i % 64 & 1) != 0) group.ends.push_back(all[ends[i]]);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const WaitGroup& a, const WaitGroup& b) { return a.ends < b.ends; });
  return found;
}

}  // namespace tutti::control
