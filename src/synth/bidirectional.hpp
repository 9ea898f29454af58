// Trees for all-reduce at the bound: each carries a part of the buffer up, and the sums of that part down, at once.
//
// Reduce-scatter and then all-gather take the sum of two times, each that of its own tightest cut. If parts go up while
// others go down, only what a link carries in all matters. An edge between two ranks of a tree carries the tree's part
// once each way, whichever rank is the root. So an all-reduce in the least time is: as many spanning trees as possible,
// in fractions, where an edge loads the links of the way there and of the way back. That is a linear program,
//   the sum of x(T) over all trees T is to be the largest, where on each arc the sum of load(T, arc) · x(T) ≤ capacity,
// with far more trees than could be written down. It is solved by column generation: solved for some trees, the program
// gives each arc a price; a tree can only help if its edges cost less than 1 in all; the cheapest one is a minimum
// spanning tree.
//
// Where both directions of links are alike and there are no switches, the largest sum is the least of (capacity between
// the parts) / (parts − 1) over all partitions of the ranks (Nash-Williams; Tutte), which is also the least time of any
// all-reduce (synth/bound.hpp): those trees are the optimum. The partition shows in the prices: edges within a part
// cost nothing.
//
// Source: Nash-Williams, Edge-disjoint spanning trees of finite graphs, 1961; Tutte, On the problem of decomposing a
// graph into n connected factors, 1961; Gilmore & Gomory, A linear programming approach to the cutting-stock problem,
// Operations Research 1961.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "synth/network.hpp"
#include "synth/pack.hpp"

namespace tutti::synth {

/// Trees in fractions. A tree's `copies` is 1.
struct Fractions {
  /// A tree, and how often its edges take an arc, by number of the arc, both ways together.
  struct Part {
    Tree tree;
    double rate = 0;  ///< in units of capacity, greater than 0
    std::vector<std::pair<uint32_t, int64_t>> load;
  };
  std::vector<Part> trees;
  double rate = 0;  ///< of all trees: buffers that pass in a second, in units
  /// By rank, the number of a part: those that the prices show, coarse ones first.
  std::vector<std::vector<uint32_t>> partitions;
};

/// The most trees at once, but for a two-thousandth part. `network` must know the ways of messages. `most`: buffers a
/// second, in units, that no all-reduce exceeds. Empty, if messages cannot reach all ranks. What it does depends on
/// nothing else, so all that ask get the same; it gives up after about ten seconds with the best so far.
Fractions pack_bidirectional(const Network& network, double most,
                             const std::function<void(const std::string&)>& progress = {});

/// Trees of the fractions in whole copies, which carry equal parts of the buffer.
struct WholeParts {
  std::vector<int64_t> copies;  ///< of each tree of the fractions
  double rate = 0;              ///< of the network with them, in units of capacity
};

/// Copies near the fractions, `parts` in all. Throws Error(InvalidArgument) if there are no trees.
WholeParts in_parts(const Network& network, const Fractions& fractions, int64_t parts);

/// Those of which there are copies, by their roots.
std::vector<Tree> trees_of(const Fractions& fractions, const WholeParts& parts);

/// Buffers that pass in a second, in units of capacity, if each tree carries its copies of equal parts both ways.
double rate_in_both_directions(const Network& network, const std::vector<Tree>& trees);

}  // namespace tutti::synth
