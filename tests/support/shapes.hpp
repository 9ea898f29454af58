// The shapes that an algorithm is tested on: numbers of ranks and, for those that work along groups, groupings.
#pragma once

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "plan/algorithm.hpp"

namespace tutti::test {

using Labels = std::vector<Rank>;

inline std::shared_ptr<const plan::Grouping> grouping_of(const Labels& labels) {
  return std::make_shared<const plan::Grouping>(labels);
}

/// Every possible grouping: each rank joins a group of an earlier one, or opens the next.
inline std::vector<Labels> all_groupings(Rank n) {
  std::vector<Labels> found = {{0}};
  for (Rank r = 1; r < n; ++r) {
    std::vector<Labels> longer;
    for (const Labels& labels : found) {
      Rank next = 0;
      for (const Rank label : labels) next = std::max(next, label + 1);
      for (Rank label = 0; label <= next; ++label) {
        longer.push_back(labels);
        longer.back().push_back(label);
      }
    }
    found = std::move(longer);
  }
  return found;
}

/// One of each kind: one group, every rank alone, neighbours in even and uneven groups, ranks dealt out in turn, one
/// large group beside ranks alone, and groups of any sizes whose members lie anywhere.
inline std::vector<Labels> some_groupings(Rank n) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::vector<Labels> found(8);
  Rank staircase = 0, left = 1;  // groups of 1, 2, 3, …
  for (Rank r = 0; r < n; ++r) {
    found[0].push_back(0);
    found[1].push_back(r);
    found[2].push_back(r / 8);
    found[3].push_back(n % 2 == 0 ? r * 2 / n : r / 2);
    found[4].push_back(r % 3);
    found[5].push_back(r < n / 2 ? r : n);
    found[6].push_back(staircase);
    found[7].push_back(static_cast<Rank>(random() % (2 + static_cast<uint32_t>(n) / 5)));
    if (--left == 0) left = ++staircase + 1;
  }
  return found;
}

/// The shape for root 0, and for each class of roots of a reduce whose order of folds depends on the root.
inline std::vector<plan::Shape> with_roots(const plan::Shape& plain) {
  std::set<Rank> roots = {0};
  if (plain.collective == Collective::Reduce) roots.insert({1 % plain.ranks, plain.ranks / 2, plain.ranks - 1});
  std::vector<plan::Shape> shapes;
  for (const Rank root : roots) {
    shapes.push_back(plain);
    shapes.back().root = root;
  }
  return shapes;
}

/// The shapes that the algorithm allows for n ranks: none, the plain shape with its roots, or groupings of all kinds
/// (for many ranks: of two kinds in turn).
inline std::vector<plan::Shape> shapes_of(const plan::Algorithm& algorithm, Rank n) {
  const plan::Shape plain{algorithm.collective, n};
  if (algorithm.allows(plain)) return with_roots(plain);
  std::vector<Labels> groupings = n <= 5 ? all_groupings(n) : some_groupings(n);
  if (n > 32) groupings = {groupings[static_cast<size_t>(n % 8)], groupings[static_cast<size_t>((n + 3) % 8)]};
  std::vector<plan::Shape> shapes;
  for (const Labels& labels : groupings) {
    const plan::Shape shape{algorithm.collective, n, grouping_of(labels)};
    if (algorithm.allows(shape)) shapes.push_back(shape);
  }
  return shapes;
}

/// "5 ranks", "5 ranks in groups 0 0 1 2 1".
inline std::string words_of(const plan::Shape& shape) {
  std::string words = fmt::format("{} ranks", shape.ranks);
  for (Rank r = 0; shape.groups != nullptr && r < shape.ranks; ++r) {
    words += fmt::format("{}{}", r == 0 ? " in groups " : " ", shape.groups->group_of(r));
  }
  if (shape.root != 0) words += fmt::format(", root {}", shape.root);
  return words;
}

}  // namespace tutti::test
