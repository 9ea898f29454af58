// The two trees of double_tree.cpp, whose comment describes them.
#pragma once

#include "algorithms/common.hpp"

namespace tutti::algorithms {

/// Above and below a rank in one tree.
struct TreePlace {
  Rank parent = kNoRank;
  std::vector<Rank> children;
};

/// Ranks first … first + m − 1 in two binary trees, number 0 and 1; none of them is inner in both.
struct DoubleTree {
  Rank first, m;

  Rank top(Rank tree) const { return rank(tree, Rank{1} << log2_floor(m)); }

  /// kNoRank above the top.
  TreePlace place(Rank tree, Rank r) const {
    const Rank p = position(tree, r), bit = p & -p;  // the highest power of 2 that divides p
    const Rank above = ((p ^ bit) | (2 * bit)) <= m ? ((p ^ bit) | (2 * bit)) : p ^ bit;
    TreePlace place{above == 0 ? kNoRank : rank(tree, above), {}};
    if (bit > 1) place.children.push_back(rank(tree, p - bit / 2));
    Rank right = bit / 2;
    while (right > 0 && p + right > m) right /= 2;
    if (right > 0) place.children.push_back(rank(tree, p + right));
    return place;
  }

 private:
  Rank position(Rank tree, Rank r) const {
    const Rank i = r - first;
    if (tree == 0) return i + 1;
    return m % 2 == 0 ? m - i : (i == 0 ? m : i);
  }
  Rank rank(Rank tree, Rank p) const {
    if (tree == 0) return first + p - 1;
    return first + (m % 2 == 0 ? m - p : p % m);
  }
};

}  // namespace tutti::algorithms
