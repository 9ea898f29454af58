#include "synth/bound.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "base/format.hpp"
#include "synth/bidirectional.hpp"
#include "synth/cuts.hpp"
#include "synth/flow.hpp"

namespace tutti::synth {
namespace {

int64_t blocks_in(const Side& side, const std::vector<int64_t>& weights) {
  int64_t blocks = 0;
  for (size_t rank = 0; rank < weights.size(); ++rank) blocks += side[rank] ? weights[rank] : 0;
  return blocks;
}

/// Newton's method on blocks / way out.
class TightestCut {
 public:
  TightestCut(const Network& network, const std::vector<int64_t>& weights)
      : network_(network), weights_(weights), source_(network.vertices), flow_(network.vertices + 1) {
    for (const Arc& arc : network.arcs) flow_.add(arc.from, arc.to, 0);
    for (Rank rank = 0; rank < network.ranks; ++rank) flow_.add(source_, static_cast<Vertex>(rank), 0);
    for (const int64_t weight : weights) total_ += weight;
  }

  Cut find() {
    for (Vertex rank = 0; network_.is_rank(rank); ++rank) {  // all but one rank: a start that is often the end
      Side side(network_.vertices, true);
      side[rank] = false;
      take(std::move(side));
    }
    while (improves()) {
    }
    return best_;
  }

 private:
  void take(Side side) {
    const int64_t blocks = blocks_in(side, weights_);
    if (blocks == 0) return;
    const Capacity out = way_out(network_, side);
    if (out == 0) no_path(network_, side);
    if (best_.sides.empty() || best_.must < Ratio{blocks, out}) best_ = {{blocks, out}, {std::move(side)}};
  }

  /// Looks for a cut tighter than the best one, towards each rank.
  bool improves() {
    if (best_.sides.empty()) return false;
    scale();
    bool improved = false;
    for (Vertex rank = 0; network_.is_rank(rank); ++rank) {
      if (flow_.value(source_, rank) >= total_ * best_.must.capacity) continue;
      Side side(network_.vertices);
      for (Vertex v = 0; v < network_.vertices; ++v) side[v] = flow_.on_source_side(v);
      take(std::move(side));
      scale();
      improved = true;
    }
    return improved;
  }

  /// As much from each rank as the best cut would let out of it in some time, and as much over each arc in that time.
  void scale() {
    uint32_t number = 0;
    for (const Arc& arc : network_.arcs) flow_.set(number++, arc.capacity * best_.must.blocks);
    for (const int64_t weight : weights_) flow_.set(number++, weight * best_.must.capacity);
  }

  const Network& network_;
  const std::vector<int64_t>& weights_;
  Vertex source_;
  MaxFlow flow_;
  int64_t total_ = 0;
  Cut best_;
};

/// µs from a rank to the farthest one.
double farthest(const Network& network, Vertex from, const std::vector<std::vector<const Arc*>>& out) {
  std::vector<double> us(network.vertices, std::numeric_limits<double>::infinity());
  std::priority_queue<std::pair<double, Vertex>, std::vector<std::pair<double, Vertex>>, std::greater<>> next;
  next.emplace(us[from] = 0, from);
  while (!next.empty()) {
    const auto [at, vertex] = next.top();
    next.pop();
    if (at > us[vertex]) continue;
    for (const Arc* arc : out[vertex]) {
      if (at + arc->us < us[arc->to]) next.emplace(us[arc->to] = at + arc->us, arc->to);
    }
  }
  return *std::max_element(us.begin(), us.begin() + network.ranks);
}

std::vector<bool> one(Rank ranks, Vertex rank) {
  std::vector<bool> set(static_cast<size_t>(ranks));
  set[rank] = true;
  return set;
}

std::vector<bool> others(std::vector<bool> set) {
  set.flip();
  return set;
}

constexpr double kMet = 1e-3;      // of the bound: so near are trees that meet it
constexpr Rank kPackedRanks = 64;  // up to so many, trees are packed: some seconds

/// Of all-reduce, in buffers.
Cut all_reduce_cut(const Network& network) {
  std::vector<uint32_t> single(static_cast<size_t>(network.ranks));
  for (uint32_t rank = 0; rank < single.size(); ++rank) single[rank] = rank;
  Cut best = cut_of_parts(network, single);
  if (*std::max_element(network.hosts.begin(), network.hosts.end()) > 0) {
    keep_tighter(best, cut_of_parts(network, network.hosts));
  }
  for (Vertex rank = 1; network.is_rank(rank); ++rank) {  // a minimum cut separates rank 0 from some other one
    const auto zero = one(network.ranks, 0), other = one(network.ranks, rank);
    for (const auto& [from, to] : {std::pair(zero, other), std::pair(other, zero)}) {
      auto [out, side] = minimum_cut(network, from, to);
      keep_tighter(best, {{1, out}, {std::move(side)}});
    }
  }
  return best;
}

/// Of all-to-all, in blocks of a rank for a rank.
class AllToAllCut {
 public:
  explicit AllToAllCut(const Network& network) : network_(network) {}

  Cut find() {
    const auto ranks = static_cast<size_t>(network_.ranks);
    if (network_.ranks <= kAllCuts) {
      for (uint32_t set = 1; set + 1 < uint32_t{1} << ranks; ++set) {
        std::vector<bool> from(ranks);
        for (size_t rank = 0; rank < ranks; ++rank) from[rank] = (set >> rank & 1) != 0;
        between(from, others(from));
      }
      return best_;
    }
    const uint32_t hosts = 1 + *std::max_element(network_.hosts.begin(), network_.hosts.end());
    for (uint32_t host = 0; hosts > 1 && host < hosts; ++host) {
      std::vector<bool> from(ranks);
      for (size_t rank = 0; rank < ranks; ++rank) from[rank] = network_.hosts[rank] == host;
      between(from, others(from));
      between(others(from), from);
    }
    for (Vertex rank = 0; network_.is_rank(rank); ++rank) {
      const auto alone = one(network_.ranks, rank);
      between(alone, others(alone));
      between(others(alone), alone);
      if (rank > 0) between(one(network_.ranks, 0), alone);
    }
    const std::vector<int64_t> weights(ranks, 1);
    take(tightest_cut(network_, weights).sides.front());
    return best_;
  }

 private:
  void between(const std::vector<bool>& from, const std::vector<bool>& to) {
    take(minimum_cut(network_, from, to).second);
  }
  void take(const Side& side) {
    const int64_t in = std::count(side.begin(), side.begin() + network_.ranks, true);
    keep_tighter(best_, {{in * (network_.ranks - in), way_out(network_, side)}, {side}});
  }

  const Network& network_;
  Cut best_;
};

/// Does reduce-scatter, then all-gather, reach the bound of all-reduce?
bool is_met(const Cut& all_reduce, const Network& network) {
  const std::vector<int64_t> each(static_cast<size_t>(network.ranks), 1);
  const Ratio gather = tightest_cut(network, each).must;
  return all_reduce.must == Ratio{2 * gather.blocks, gather.capacity * network.ranks};
}

/// Of all-reduce, in buffers; and is it reached, by reduce-scatter and then all-gather, or by trees in both directions
/// at once? Those also show a partition between whose parts links are full.
std::pair<Cut, bool> all_reduce_bound(const Network& network, Fractions& trees) {
  Cut best = all_reduce_cut(network);
  if (network.exact && is_met(best, network)) return {best, true};
  if (!network.has_ways() || network.ranks > kPackedRanks) return {best, false};
  const auto buffers = [&] {  // a second, in units
    return static_cast<double>(best.must.capacity) / static_cast<double>(best.must.blocks);
  };
  trees = pack_bidirectional(network, buffers());
  for (const std::vector<uint32_t>& labels : trees.partitions) keep_tighter(best, cut_of_parts(network, labels));
  return {best, trees.rate >= (1 - kMet) * buffers()};
}

}  // namespace

double farthest_us(const Network& network, const std::vector<int64_t>& weights) {
  std::vector<std::vector<const Arc*>> out(network.vertices);
  for (const Arc& arc : network.arcs) out[arc.from].push_back(&arc);
  double us = 0;
  for (Vertex rank = 0; network.is_rank(rank); ++rank) {
    if (weights[rank] > 0) us = std::max(us, farthest(network, rank, out));
  }
  return us;
}

Cut tightest_cut(const Network& network, const std::vector<int64_t>& weights) {
  return TightestCut(network, weights).find();
}

std::vector<int64_t> weights_of(Collective collective, Rank ranks, Rank root) {
  if (root < 0 || root >= ranks) {
    throw_error(Code::InvalidArgument, "root {} of {} ranks: ranks are 0 to {}", root, ranks, ranks - 1);
  }
  std::vector<int64_t> weights(static_cast<size_t>(ranks), has_root(collective) ? 0 : 1);
  weights[static_cast<size_t>(root)] = 1;
  return weights;
}

Bound bound_of(const Network& network, Collective collective, Rank root, Fractions* trees) {
  const std::vector<int64_t> weights = weights_of(collective, network.ranks, root);
  Bound bound{
      .cut = {}, .buffer = has_root(collective) ? 1 : network.ranks, .exact = network.exact, .unit = network.unit};
  if (network.ranks == 1) return bound;
  switch (collective) {
    case Collective::AllGather:
    case Collective::Broadcast:
      bound.cut = tightest_cut(network, weights);
      break;
    case Collective::ReduceScatter:
    case Collective::Reduce:
      bound.cut = tightest_cut(reversed(network), weights);
      break;
    case Collective::AllReduce: {
      Fractions packed;
      std::tie(bound.cut, bound.exact) = all_reduce_bound(network, packed);
      if (trees != nullptr) *trees = std::move(packed);
      bound.buffer = 1;
      break;
    }
    case Collective::AllToAll:
      bound.cut = AllToAllCut(network).find();
      bound.exact = false;
      break;
    default:
      throw_error(Code::Unsupported,
                  "no bound is known of {}; of all_gather, reduce_scatter, all_reduce, broadcast, "
                  "reduce and all_to_all one is",
                  name_of(collective));
  }
  bound.us = farthest_us(collective == Collective::Reduce ? reversed(network) : network, weights);
  return bound;
}

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ",";
    text += last > i ? fmt::format("{}-{}", ranks[i], ranks[last]) : fmt::format("{}", ranks[i]);
    i = last + 1;
  }
  return text;
}

namespace {

/// Where the rates come from of what leaves the sides, in GB/s each.
std::string origins_text(const Network& network, const Bound& bound) {
  if (network.origins.empty()) return "";
  std::vector<double> crossing(network.origins.size());
  for (const Side& side : bound.cut.sides) {
    for (const Arc& arc : network.arcs) {
      if (side[arc.from] && !side[arc.to]) crossing[arc.origin] += static_cast<double>(arc.capacity) * bound.unit / 1e9;
    }
  }
  std::vector<std::string> parts;
  const bool several = std::count_if(crossing.begin(), crossing.end(), [](double gbps) { return gbps > 0; }) > 1;
  for (size_t i = 0; i < crossing.size(); ++i) {
    if (crossing[i] <= 0) continue;
    const std::string& words = network.origins[i];
    parts.push_back(several ? fmt::format("{:.6g} GB/s {}", crossing[i], words) : words);
  }
  return fmt::format(" (rates: {})", fmt::join(parts, "; "));
}

}  // namespace

std::string words_of(const Network& network, const Bound& bound) {
  if (bound.cut.sides.empty()) return "one rank: nothing is sent";
  std::vector<std::pair<std::vector<Rank>, size_t>> sets;  // with how many switches that fold
  std::vector<Rank> rest;
  for (const Side& side : bound.cut.sides) {
    sets.emplace_back();
    for (Rank rank = 0; rank < network.ranks; ++rank) {
      (side[static_cast<size_t>(rank)] ? sets.back().first : rest).push_back(rank);
    }
    if (!bound.folding || bound.cut.sides.size() == 1) continue;  // one cut holds whatever switches do
    for (const Vertex switching : network.folding) sets.back().second += side[switching] ? 1 : 0;
  }
  if (sets.size() == 1) sets.emplace_back(rest, 0);
  std::sort(sets.begin(), sets.end());
  std::vector<std::string> parts;
  for (const auto& [ranks, switches] : sets) {
    parts.push_back((ranks.size() == 1 ? "rank " : "ranks ") + ranks_text(ranks));
    if (switches > 0) parts.back() += switches == 1 ? " and switch" : fmt::format(" and {} switches", switches);
  }
  constexpr size_t kShown = 3;
  if (parts.size() > kShown) parts = {parts[0], parts[1], "…", parts.back()};
  const double gbps = static_cast<double>(bound.cut.must.capacity) * bound.unit / 1e9;
  const int64_t blocks = bound.cut.must.blocks;
  const std::string what = bound.buffer == 1 ? (blocks == 1 ? "the buffer" : fmt::format("{} times the buffer", blocks))
                                             : fmt::format("{} block{}", blocks, blocks == 1 ? "" : "s");
  const bool ranks_alone = !network.folding.empty() && bound.cut.sides.size() > 1;  // switches that fold may be faster
  const char* const where = bound.folding ? " where switches fold" : ranks_alone ? " where ranks alone fold" : "";
  return fmt::format("{{{}}}: {:.6g} GB/s cross, {} must -> >= {:.4g} ms/GiB{}{}", fmt::join(parts, " | "), gbps, what,
                     bound.seconds_per_byte() * 1073741824.0 * 1e3, where, origins_text(network, bound));
}

}  // namespace tutti::synth
