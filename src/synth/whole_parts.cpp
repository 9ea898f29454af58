// Fractions of trees as whole numbers of equal parts of the buffer.
#include <algorithm>

#include "synth/both_ways.hpp"

namespace tutti::synth {
namespace {

constexpr double kNone = 1e-9;  // of a time or a share: 0 but for rounding

/// Fractions to whole numbers of copies.
class Rounding {
 public:
  Rounding(const Network& network, const Fractions& fractions, int64_t parts)
      : network_(network), fractions_(fractions), parts_(parts), load_(network.arcs.size()) {}

  WholeParts run() {
    by_largest_remainder();
    for (int64_t moves = 0; moves < parts_ && move_one(); ++moves) {
    }
    made_.rate = static_cast<double>(parts_) / busiest().first;
    return std::move(made_);
  }

 private:
  void by_largest_remainder() {
    std::vector<std::pair<double, size_t>> rest;  // the largest first
    int64_t given = 0;
    for (size_t i = 0; i < fractions_.trees.size(); ++i) {
      const double exact = static_cast<double>(parts_) * fractions_.trees[i].rate / fractions_.rate;
      const auto whole = static_cast<int64_t>(exact + kNone);
      made_.copies.push_back(0);
      add(i, whole);
      given += whole;
      rest.emplace_back(static_cast<double>(whole) - exact, i);
    }
    std::sort(rest.begin(), rest.end());
    for (size_t i = 0; given < parts_; ++i, ++given) add(rest[i % rest.size()].second, 1);
  }

  void add(size_t tree, int64_t copies) {
    made_.copies[tree] += copies;
    for (const auto& [arc, times] : fractions_.trees[tree].load) load_[arc] += times * copies;
  }

  /// Parts ÷ capacity of the arc that takes the longest, and how many take as long.
  std::pair<double, size_t> busiest() const {
    std::pair<double, size_t> most = {0, 0};
    for (size_t i = 0; i < load_.size(); ++i) {
      const double time = static_cast<double>(load_[i]) / static_cast<double>(network_.arcs[i].capacity);
      if (time > most.first + kNone) most = {time, 0};
      if (time > most.first - kNone) ++most.second;
    }
    return most;
  }

  /// One copy of a tree becomes one of another, if that makes the busiest arcs less busy, or fewer.
  bool move_one() {
    const auto now = busiest();
    for (size_t from = 0; from < made_.copies.size(); ++from) {
      if (made_.copies[from] == 0) continue;
      add(from, -1);
      if (busiest() < now) {
        for (size_t to = 0; to < made_.copies.size(); ++to) {
          if (to == from) continue;
          add(to, 1);
          const auto then = busiest();
          if (then.first < now.first - kNone || (then.first < now.first + kNone && then.second < now.second))
            return true;
          add(to, -1);
        }
      }
      add(from, 1);
    }
    return false;
  }

  const Network& network_;
  const Fractions& fractions_;
  const int64_t parts_;
  std::vector<int64_t> load_;  // by arc: parts
  WholeParts made_;
};

}  // namespace

WholeParts in_parts(const Network& network, const Fractions& fractions, int64_t parts) {
  return Rounding(network, fractions, parts).run();
}

std::vector<Tree> trees_of(const Fractions& fractions, const WholeParts& parts) {
  std::vector<Tree> trees;
  for (size_t i = 0; i < parts.copies.size(); ++i) {
    if (parts.copies[i] == 0) continue;
    trees.push_back(fractions.trees[i].tree);
    trees.back().copies = parts.copies[i];
  }
  std::stable_sort(trees.begin(), trees.end(), [](const Tree& a, const Tree& b) { return a.root < b.root; });
  return trees;
}

}  // namespace tutti::synth
