#include "synth/latency.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>

#include "base/cancel.hpp"

namespace tutti::synth {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBetter = 1 - 1e-9;  // what differs by less is rounding

size_t index(Rank rank) { return static_cast<size_t>(rank); }

/// Until `wanted` of something know, where each of them sends `each` messages at a time.
double time_to_reach(size_t wanted, size_t each, double latency, double gap) {
  if (wanted <= 1) return 0;
  if (gap <= 0) return latency;
  std::priority_queue<double, std::vector<double>, std::greater<>> next;  // when one may send its next messages
  next.push(0);
  double last = 0;
  for (size_t known = 1; known < wanted;) {
    const double now = next.top();
    next.pop();
    next.push(now + gap);
    for (size_t i = 0; i < each && known < wanted; ++i, ++known) {
      last = std::max(last, now + latency);
      next.push(now + latency);
    }
  }
  return last;
}

double farthest(const Postal& postal, Rank root) {
  const Rank n = postal.ranks();
  std::vector<double> way(index(n), kInfinity);
  std::vector<bool> done(index(n));
  way[index(root)] = 0;
  for (Rank step = 0; step < n; ++step) {
    Rank at = kNoRank;
    for (Rank rank = 0; rank < n; ++rank) {
      if (!done[index(rank)] && (at == kNoRank || way[index(rank)] < way[index(at)])) at = rank;
    }
    done[index(at)] = true;
    for (Rank to = 0; to < n; ++to) {
      if (to != at) way[index(to)] = std::min(way[index(to)], way[index(at)] + postal.latency(at, to));
    }
  }
  return *std::max_element(way.begin(), way.end());
}

/// The sizes of the clusters of ranks that latencies below `least` join.
std::vector<size_t> clusters_below(const Postal& postal, double least) {
  const Rank n = postal.ranks();
  std::vector<Rank> of(index(n), kNoRank);
  std::vector<size_t> sizes;
  for (Rank first = 0; first < n; ++first) {
    if (of[index(first)] != kNoRank) continue;
    std::vector<Rank> found = {first};
    of[index(first)] = first;
    for (size_t i = 0; i < found.size(); ++i) {
      for (Rank to = 0; to < n; ++to) {
        if (of[index(to)] != kNoRank || postal.latency(found[i], to) >= least) continue;
        of[index(to)] = first;
        found.push_back(to);
      }
    }
    sizes.push_back(found.size());
  }
  return sizes;
}

/// By the clusters of each latency; the least one makes every rank a cluster.
double between_clusters(const Postal& postal) {
  const Rank n = postal.ranks();
  constexpr size_t kMaxTried = 64;
  std::map<double, double> gaps;  // by latency: the least gap of a message of at least that
  for (Rank from = 0; from < n; ++from) {
    for (Rank to = 0; to < n; ++to) {
      if (from == to) continue;
      const auto [at, is_new] = gaps.emplace(postal.latency(from, to), postal.gap(from, to));
      if (!is_new) at->second = std::min(at->second, postal.gap(from, to));
    }
  }
  double gap = kInfinity;
  for (auto at = gaps.rbegin(); at != gaps.rend(); ++at) gap = at->second = std::min(gap, at->second);
  const size_t stride = std::max<size_t>(1, (gaps.size() + kMaxTried - 1) / kMaxTried);
  double best = 0;
  size_t number = 0;
  for (const auto& [latency, least_gap] : gaps) {
    if (number++ % stride != 0) continue;
    const std::vector<size_t> sizes = clusters_below(postal, latency);
    best =
        std::max(best, time_to_reach(sizes.size(), *std::max_element(sizes.begin(), sizes.end()), latency, least_gap));
  }
  return best;
}

/// Trees that are tried, by their parents alone: children are told in the best order.
class TreeSearch {
 public:
  TreeSearch(const Postal& postal, Rank root) : postal_(postal), n_(postal.ranks()), root_(root) {}

  LatencyTree find() {
    if (n_ <= kExactRanks) {
      std::vector<Rank> parents(index(n_), kNoRank);
      std::vector<Rank> rest;
      for (Rank rank = 0; rank < n_; ++rank) {
        if (rank != root_) rest.push_back(rank);
      }
      try_all(parents, rest, 0);
      return tree_of(best_);
    }
    for (const bool looks_ahead : {false, true}) {
      for (const bool far_first : {false, true}) keep(improved(greedy(looks_ahead, far_first)));
    }
    return tree_of(best_);
  }

  /// Told first: those whose subtrees take longest.
  LatencyTree tree_of(const std::vector<Rank>& parents) const {
    LatencyTree tree{.root = root_, .parents = parents, .children = std::vector<std::vector<Rank>>(index(n_))};
    for (Rank rank = 0; rank < n_; ++rank) {
      if (rank != root_) tree.children[index(parents[index(rank)])].push_back(rank);
    }
    finish(tree, root_);
    return tree;
  }

 private:
  using Takes = std::vector<std::pair<double, Rank>>;  // children, and the negative of what they and those below take

  /// Until all below a rank know that tells its children in this order.
  double arrival(const Takes& order, Rank rank) const {
    double start = 0, last = 0;
    for (const auto& [minus, child] : order) {
      last = std::max(last, start - minus);
      start += postal_.gap(rank, child);
    }
    return last;
  }

  /// Sorts the children below a rank; returns the time from when it knows until all of them do.
  double finish(LatencyTree& tree, Rank rank) const {
    auto& children = tree.children[index(rank)];
    Takes takes;
    for (const Rank child : children) takes.emplace_back(-postal_.latency(rank, child) - finish(tree, child), child);
    std::sort(takes.begin(), takes.end());
    Takes best = takes;
    double last = arrival(takes, rank);
    if (n_ <= kExactRanks) {  // where gaps differ, another order may be faster
      while (std::next_permutation(takes.begin(), takes.end())) {
        const double seconds = arrival(takes, rank);
        if (seconds < kBetter * last) last = seconds, best = takes;
      }
    }
    for (size_t i = 0; i < best.size(); ++i) children[i] = best[i].second;
    return last;
  }

  double cost(const std::vector<Rank>& parents) const {
    LatencyTree tree{.root = root_, .parents = {}, .children = std::vector<std::vector<Rank>>(index(n_))};
    for (Rank rank = 0; rank < n_; ++rank) {
      if (rank != root_) tree.children[index(parents[index(rank)])].push_back(rank);
    }
    return finish(tree, root_);
  }

  void keep(const std::vector<Rank>& parents) {
    const double seconds = cost(parents);
    if (seconds >= kBetter * best_cost_) return;
    best_cost_ = seconds;
    best_ = parents;
  }

  bool leads_to_root(const std::vector<Rank>& parents, Rank rank) const {
    for (Rank steps = 0; rank != root_; ++steps) {
      if (steps == n_) return false;
      rank = parents[index(rank)];
    }
    return true;
  }

  void try_all(std::vector<Rank>& parents, const std::vector<Rank>& rest, size_t at) {
    if (at == rest.size()) {
      const bool tree = std::all_of(rest.begin(), rest.end(), [&](Rank rank) { return leads_to_root(parents, rank); });
      if (tree) keep(parents);
      return;
    }
    for (Rank parent = 0; parent < n_; ++parent) {
      if (parent == rest[at]) continue;
      parents[index(rest[at])] = parent;
      try_all(parents, rest, at + 1);
    }
  }

  /// Always the rank next that is told earliest; if it looks ahead, it and the rank that it can tell then. `far_first`:
  /// of those in other clusters as long as there are some: the nearest cluster is left for last.
  std::vector<Rank> greedy(bool looks_ahead, bool far_first) const {
    std::vector<Rank> parents(index(n_), kNoRank);
    std::vector<double> free(index(n_), kInfinity);
    free[index(root_)] = 0;
    std::vector<Rank> known = {root_};
    std::set<Rank> rest;
    for (Rank rank = 0; rank < n_; ++rank) {
      if (rank != root_) rest.insert(rank);
    }
    const auto nearest = [&](Rank from) {  // that does not know yet
      double least = kInfinity;
      for (const Rank to : rest) least = std::min(least, to == from ? kInfinity : postal_.latency(from, to));
      return least == kInfinity ? 0 : least;
    };
    while (!rest.empty()) {
      std::pair<double, double> best(kInfinity, 0);  // of those told at the same time, the farthest from all that know
      Rank from = kNoRank, to = kNoRank;
      for (const Rank candidate : rest) {
        const double ahead = looks_ahead ? nearest(candidate) : 0;
        double near = kInfinity;  // to the nearest one that knows
        for (const Rank one : known) near = std::min(near, postal_.latency(one, candidate));
        for (const Rank one : known) {
          double seconds = free[index(one)] + postal_.latency(one, candidate) + ahead;
          if (far_first) seconds = free[index(one)] + postal_.latency(one, candidate) - 2 * near;
          if (std::pair(seconds, -near) >= best) continue;
          best = {seconds, -near}, from = one, to = candidate;
        }
      }
      parents[index(to)] = from;
      free[index(to)] = free[index(from)] + postal_.latency(from, to);
      free[index(from)] += postal_.gap(from, to);
      known.push_back(to);
      rest.erase(to);
    }
    return parents;
  }

  /// Gives subtrees to other parents as long as that helps.
  std::vector<Rank> improved(std::vector<Rank> parents) const {
    const Rank most = n_ <= 32 ? 64 : 8;  // rounds
    double now = cost(parents);
    for (Rank round = 0; round < most; ++round) {
      const double before = now;
      for (const Rank rank : slowest(parents)) {
        check_cancelled();
        const Rank old = parents[index(rank)];
        Rank best = old;
        for (Rank parent = 0; parent < n_; ++parent) {
          if (parent == rank || parent == old) continue;
          parents[index(rank)] = parent;
          if (!leads_to_root(parents, rank)) continue;
          const double seconds = cost(parents);
          if (seconds < kBetter * now) now = seconds, best = parent;
        }
        parents[index(rank)] = best;
      }
      if (now >= kBetter * before) break;
    }
    return parents;
  }

  /// The ranks on the way to the one that knows last; those of few ranks all.
  std::vector<Rank> slowest(const std::vector<Rank>& parents) const {
    std::vector<Rank> some;
    if (n_ <= 32) {
      for (Rank rank = 0; rank < n_; ++rank) {
        if (rank != root_) some.push_back(rank);
      }
      return some;
    }
    const LatencyTree tree = tree_of(parents);
    std::vector<double> knows(index(n_));
    std::vector<Rank> order = {root_};
    for (size_t i = 0; i < order.size(); ++i) {
      double start = knows[index(order[i])];
      for (const Rank child : tree.children[index(order[i])]) {
        knows[index(child)] = start + postal_.latency(order[i], child);
        start += postal_.gap(order[i], child);
        order.push_back(child);
      }
    }
    Rank last = static_cast<Rank>(std::max_element(knows.begin(), knows.end()) - knows.begin());
    for (; last != root_; last = parents[index(last)]) {
      some.push_back(last);
      for (const Rank other : tree.children[index(parents[index(last)])]) {  // those that it waits for
        if (other == last) break;
        some.push_back(other);
      }
    }
    return some;
  }

  const Postal& postal_;
  Rank n_, root_;
  double best_cost_ = kInfinity;
  std::vector<Rank> best_;
};

}  // namespace

Postal::Postal(Rank ranks, double latency, double gap)
    : ranks_(ranks), latency_(index(ranks) * index(ranks), latency), gap_(gap) {}

Postal::Postal(Rank ranks, std::vector<double> latency, double share, double gap)
    : ranks_(ranks), latency_(std::move(latency)), share_(share), gap_(gap) {}

double postal_time(Rank ranks, double latency, double gap) { return time_to_reach(index(ranks), 1, latency, gap); }

double least_latency(const Postal& postal, Rank root) {
  if (postal.ranks() < 2) return 0;
  return std::max(farthest(postal, root), between_clusters(postal));
}

double least_latency(const Postal& postal) {
  if (postal.ranks() < 2) return 0;
  double most = between_clusters(postal);
  for (Rank root = 0; root < postal.ranks(); ++root) most = std::max(most, farthest(postal, root));
  return most;
}

double time_of(const LatencyTree& tree, const Postal& postal) {
  std::vector<double> knows(index(postal.ranks()));
  std::vector<Rank> order = {tree.root};
  double last = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    double start = knows[index(order[i])];
    for (const Rank child : tree.children[index(order[i])]) {
      knows[index(child)] = start + postal.latency(order[i], child);
      start += postal.gap(order[i], child);
      last = std::max(last, knows[index(child)]);
      order.push_back(child);
    }
  }
  return last;
}

LatencyTree fastest_tree(const Postal& postal, Rank root) { return TreeSearch(postal, root).find(); }

}  // namespace tutti::synth
