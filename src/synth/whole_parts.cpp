// Fractions of trees as whole numbers of equal parts of the buffer.
#include <algorithm>

#include "base/cancel.hpp"
#include "base/format.hpp"
#include "synth/bidirectional.hpp"
#include "synth/bound.hpp"

namespace tutti::synth {
namespace {

constexpr double kTolerance = 1e-9;  // of a number of copies

/// Fractions to whole numbers of copies.
class Rounding {
 public:
  Rounding(const Network& network, const Fractions& fractions, int64_t parts)
      : network_(network), fractions_(fractions), parts_(parts), load_(network.arcs.size()) {}

  WholeParts run() {
    by_largest_remainder();
    for (int64_t moves = 0; moves < parts_ && move_one(); ++moves) {
    }
    const Ratio time = busiest().first;
    made_.rate = static_cast<double>(parts_) * static_cast<double>(time.capacity) / static_cast<double>(time.blocks);
    return std::move(made_);
  }

 private:
  void by_largest_remainder() {
    std::vector<std::pair<double, size_t>> rest;  // the largest first
    int64_t given = 0;
    for (size_t i = 0; i < fractions_.trees.size(); ++i) {
      const double exact = static_cast<double>(parts_) * fractions_.trees[i].rate / fractions_.rate;
      const auto whole = static_cast<int64_t>(exact + kTolerance);
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
  std::pair<Ratio, size_t> busiest() const {
    std::pair<Ratio, size_t> most = {{0, 1}, 0};
    for (size_t i = 0; i < load_.size(); ++i) {
      const Ratio time{load_[i], network_.arcs[i].capacity};
      if (most.first < time) most = {time, 0};
      if (time == most.first) ++most.second;
    }
    return most;
  }

  /// One copy of a tree becomes one of another, if that makes the busiest arcs less busy, or fewer.
  bool move_one() {
    const auto now = busiest();
    for (size_t from = 0; from < made_.copies.size(); ++from) {
      if (made_.copies[from] == 0) continue;
      check_cancelled();
      add(from, -1);
      if (busiest() < now) {
        for (size_t to = 0; to < made_.copies.size(); ++to) {
          if (to == from) continue;
          add(to, 1);
          const auto then = busiest();
          if (then < now) return true;
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
  if (fractions.trees.empty()) throw_error(Code::InvalidArgument, "there are no trees to be given {} parts", parts);
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
