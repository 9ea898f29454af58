#include "synth/bidirectional.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/cancel.hpp"
#include "base/format.hpp"
#include "synth/packing_program.hpp"

namespace tutti::synth {
namespace {

constexpr double kNearEnough = 5e-4;  // of what prices say is possible, at which no more trees are looked for
constexpr size_t kStarts = 64;        // ranks from which trees are grown in a round
constexpr double kNoPath = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;  // of a price or a rate, which are about 1

/// For each pair of ranks, the arcs that messages pass from one to the other, and back.
class PairPaths {
 public:
  explicit PairPaths(const Network& network) : ranks_(static_cast<size_t>(network.ranks)), arcs_(ranks_ * ranks_) {
    for (uint32_t i = 0; i < network.arcs.size(); ++i) numbers_[{network.arcs[i].from, network.arcs[i].to}] = i;
    for (Rank a = 0; a < network.ranks; ++a) {
      for (Rank b = 0; b < a; ++b) {
        std::vector<uint32_t> both;
        if (!add(network, a, b, both) || !add(network, b, a, both)) continue;
        arcs_[at(a, b)] = arcs_[at(b, a)] = std::move(both);
      }
    }
  }

  /// Empty: there is no path.
  const std::vector<uint32_t>& of(Rank a, Rank b) const { return arcs_[at(a, b)]; }

 private:
  size_t at(Rank a, Rank b) const { return static_cast<size_t>(a) * ranks_ + static_cast<size_t>(b); }

  /// False: there is no path, or none of links that the network has.
  bool add(const Network& network, Rank from, Rank to, std::vector<uint32_t>& arcs) const {
    if (!network.has_way(from, to)) return false;
    const std::vector<Vertex> way = network.way(from, to);
    for (size_t i = 1; i < way.size(); ++i) {
      const auto found = numbers_.find({way[i - 1], way[i]});
      if (found == numbers_.end()) return false;
      arcs.push_back(found->second);
    }
    return true;
  }

  size_t ranks_;
  std::map<std::pair<Vertex, Vertex>, uint32_t> numbers_;  // of arcs
  std::vector<std::vector<uint32_t>> arcs_;
};

/// What an edge costs, in one round of column generation.
class Prices {
 public:
  Prices(const PairPaths& paths, const std::vector<double>& arcs, size_t ranks) : ranks_(ranks), edges_(ranks * ranks) {
    for (size_t a = 0; a < ranks; ++a) {
      for (size_t b = 0; b < ranks; ++b) {
        const std::vector<uint32_t>& path = paths.of(static_cast<Rank>(a), static_cast<Rank>(b));
        if (path.empty()) edges_[a * ranks + b] = kNoPath;
        for (const uint32_t arc : path) edges_[a * ranks + b] += arcs[arc];
      }
    }
  }
  double of(size_t a, size_t b) const { return edges_[a * ranks_ + b]; }

 private:
  size_t ranks_;
  std::vector<double> edges_;
};

struct Spanning {
  Tree tree;
  double price = 0;
};

/// A minimum spanning tree (Jarník, Prim). Of edges that cost the same, that which is nearest to the root. Its price is
/// kNoPath if it does not reach all ranks.
Spanning cheapest(const Prices& prices, size_t ranks, size_t root) {
  Spanning made;
  made.tree.root = static_cast<Rank>(root);
  made.tree.parents.assign(ranks, kNoRank);
  std::vector<double> price(ranks, kNoPath);
  std::vector<size_t> depth(ranks), parent(ranks, root);
  std::vector<bool> in(ranks);
  for (size_t next = root, reached = 0; reached < ranks; ++reached) {
    if (price[next] == kNoPath && next != root) {
      made.price = kNoPath;
      return made;
    }
    in[next] = true;
    made.tree.order.push_back(static_cast<Rank>(next));
    if (next != root) {
      made.tree.parents[next] = static_cast<Rank>(parent[next]);
      made.price += price[next];
      depth[next] = depth[parent[next]] + 1;
    }
    const size_t joined = next;
    next = ranks;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (in[rank]) continue;
      const double by = prices.of(joined, rank);
      if (by < price[rank] - kTolerance || (by < price[rank] + kTolerance && depth[joined] < depth[parent[rank]])) {
        price[rank] = by;
        parent[rank] = joined;
      }
      if (next == ranks || price[rank] < price[next] - kTolerance ||
          (price[rank] < price[next] + kTolerance && depth[parent[rank]] < depth[parent[next]])) {
        next = rank;
      }
    }
  }
  return made;
}

/// The same edges, from the rank that makes it the flattest.
Tree from_its_middle(const Tree& tree) {
  const size_t ranks = tree.parents.size();
  std::vector<std::vector<Rank>> beside = tree.children();
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (tree.parents[rank] != kNoRank) beside[rank].push_back(tree.parents[rank]);
  }
  const auto from = [&](Rank root) {
    Tree other{.root = root, .copies = tree.copies, .parents = std::vector<Rank>(ranks, kNoRank), .order = {root}};
    for (size_t i = 0; i < other.order.size(); ++i) {
      const Rank at = other.order[i];
      for (const Rank next : beside[static_cast<size_t>(at)]) {
        if (next == root || next == other.parents[static_cast<size_t>(at)]) continue;
        other.parents[static_cast<size_t>(next)] = at;
        other.order.push_back(next);
      }
    }
    return other;
  };
  const Tree down = from(tree.order.back());  // the last one reached is a farthest one
  const Tree across = from(down.order.back());
  Rank middle = across.order.back();
  for (Rank up = across.depth() / 2; up > 0; --up) middle = across.parents[static_cast<size_t>(middle)];
  return from(middle);
}

/// So that `most` buffers a second, a bound, are 1. No arc can carry more than all edges of all trees.
std::vector<double> capacities_of(const Network& network, double most) {
  std::vector<double> capacities;
  for (const Arc& arc : network.arcs) {
    capacities.push_back(std::min(2.0 * network.ranks, static_cast<double>(arc.capacity) / most));
  }
  return capacities;
}

class Packing {
 public:
  Packing(const Network& network, double most)
      : ranks_(static_cast<size_t>(network.ranks)),
        paths_(network),
        most_(most),
        capacities_(capacities_of(network, most)),
        program_(capacities_) {}

  Fractions run(const std::function<void(const std::string&)>& progress) {
    std::vector<double> prices;
    for (const double capacity : capacities_) prices.push_back(1 / capacity);
    if (take_cheapest(prices, kNoPath).first == kNoPath) return {};
    double most = 1;
    for (bool goes_on = true; goes_on;) {
      goes_on = program_.solve();
      prices = program_.prices();
      const double value = program_.value();
      const auto [price, are_new] = take_cheapest(prices, 1);
      if (goes_on) most = std::min(most, value / price);
      if (progress) progress(fmt::format("trees in both directions: {:.2f} % of what is possible", 100 * value / most));
      goes_on = goes_on && are_new && value < (1 - kNearEnough) * most;
    }
    return found(prices);
  }

 private:
  /// Adds the cheapest trees, if they cost less than `limit`. The price of the cheapest, and whether any is new.
  std::pair<double, bool> take_cheapest(const std::vector<double>& arcs, double limit) {
    const Prices prices(paths_, arcs, ranks_);
    double least = std::numeric_limits<double>::infinity();
    bool are_new = false;
    for (size_t i = 0; i < std::min(kStarts, ranks_); ++i) {
      check_cancelled();
      Spanning made = cheapest(prices, ranks_, (first_ + i) % ranks_);
      least = std::min(least, made.price);
      if (made.price < limit) are_new = take(std::move(made.tree)) || are_new;
    }
    first_ = (first_ + kStarts) % ranks_;
    return {least, are_new};
  }

  bool take(Tree tree) {
    tree = from_its_middle(tree);
    std::set<std::pair<Rank, Rank>> edges;
    std::map<uint32_t, int64_t> load;
    for (const Rank rank : tree.order) {
      if (rank == tree.root) continue;
      const Rank parent = tree.parents[static_cast<size_t>(rank)];
      edges.insert(std::minmax(rank, parent));
      for (const uint32_t arc : paths_.of(rank, parent)) ++load[arc];
    }
    if (!known_.insert(edges).second) return false;
    program_.add({load.begin(), load.end()});
    trees_.push_back({std::move(tree), 0, {load.begin(), load.end()}});
    return true;
  }

  /// The trees that are taken, as many as the arcs carry, whatever rounding has done to the program.
  Fractions found(const std::vector<double>& prices) const {
    const std::vector<double> taken = program_.taken();
    std::vector<double> load(capacities_.size());
    for (size_t i = 0; i < trees_.size(); ++i) {
      for (const auto& [arc, times] : trees_[i].load) load[arc] += taken[i] * static_cast<double>(times);
    }
    double fits = std::numeric_limits<double>::infinity();
    for (size_t arc = 0; arc < load.size(); ++arc) {
      if (load[arc] > 0) fits = std::min(fits, capacities_[arc] / load[arc]);
    }
    Fractions made;
    for (size_t i = 0; i < trees_.size(); ++i) {
      if (taken[i] < kTolerance * program_.value()) continue;
      made.trees.push_back(trees_[i]);
      made.trees.back().rate = taken[i] * fits * most_;
      made.rate += made.trees.back().rate;
    }
    made.partitions = partitions(Prices(paths_, prices, ranks_));
    return made;
  }

  /// Ranks are of one part if they are joined by edges that cost no more than so much.
  std::vector<std::vector<uint32_t>> partitions(const Prices& prices) const {
    const Tree tree = cheapest(prices, ranks_, 0).tree;
    std::set<double, std::greater<>> limits;
    const auto price = [&](Rank rank) {
      const double exact =
          prices.of(static_cast<size_t>(rank), static_cast<size_t>(tree.parents[static_cast<size_t>(rank)]));
      return std::round(exact / kTolerance / 100) * kTolerance * 100;
    };
    for (const Rank rank : tree.order) {
      if (rank != tree.root) limits.insert(price(rank));
    }
    std::vector<std::vector<uint32_t>> all;
    for (const double limit : limits) {  // edges below it are within parts
      std::vector<uint32_t> parts(ranks_);
      uint32_t count = 0;
      for (const Rank rank : tree.order) {
        const bool starts = rank == tree.root || price(rank) >= limit;
        const auto at = static_cast<size_t>(rank);
        parts[at] = starts ? count++ : parts[static_cast<size_t>(tree.parents[at])];
      }
      all.push_back(std::move(parts));
    }
    return all;
  }

  size_t ranks_;
  PairPaths paths_;
  double most_;                     // buffers a second, in units of capacity: 1 in the program
  std::vector<double> capacities_;  // in the program
  PackingProgram program_;
  std::vector<Fractions::Part> trees_;
  std::set<std::set<std::pair<Rank, Rank>>> known_;
  size_t first_ = 0;
};

}  // namespace

Fractions pack_bidirectional(const Network& network, double most,
                             const std::function<void(const std::string&)>& progress) {
  return Packing(network, most).run(progress);
}

double rate_in_both_directions(const Network& network, const std::vector<Tree>& trees) {
  std::map<std::pair<Vertex, Vertex>, int64_t> load;
  int64_t all = 0;
  for (const Tree& tree : trees) {
    all += tree.copies;
    for (const Rank rank : tree.order) {
      if (rank == tree.root) continue;
      const Rank parent = tree.parents[static_cast<size_t>(rank)];
      for (const auto& way : {network.way(parent, rank), network.way(rank, parent)}) {
        for (size_t i = 1; i < way.size(); ++i) load[{way[i - 1], way[i]}] += tree.copies;
      }
    }
  }
  double rate = std::numeric_limits<double>::infinity();
  for (const Arc& arc : network.arcs) {
    const auto found = load.find({arc.from, arc.to});
    if (found == load.end()) continue;
    rate = std::min(rate,
                    static_cast<double>(arc.capacity) * static_cast<double>(all) / static_cast<double>(found->second));
  }
  return rate;
}

}  // namespace tutti::synth
