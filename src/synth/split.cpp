#include "synth/split.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <span>

#include "base/format.hpp"
#include "synth/flow.hpp"
#include "synth/ports.hpp"

namespace tutti::synth {
namespace {

int64_t sum(const Demand& demand) { return std::accumulate(demand.begin(), demand.end(), int64_t{0}); }

void add_source(MaxFlow& flow, Vertex source, const Demand& demand) {
  for (Vertex rank = 0; rank < demand.size(); ++rank) {
    if (demand[rank] > 0) flow.add(source, rank, demand[rank]);
  }
}

/// The slack of pairs of arcs, as it is now.
class Slack {
 public:
  Slack(const Ports& ports, const Demand& demand) : ports_(ports), demand_(demand), all_(sum(demand)) {}

  /// Of (u, w) and (w, t); at most `most`.
  Capacity of(Vertex u, Vertex w, Vertex t, Capacity most) {
    most = least_cut({u, t}, {w}, most);
    return least_cut({w}, {u, t}, most);
  }

 private:
  /// The smallest cut that has `inside` on the source's side, and `outside` and some rank on the other; less the
  /// demand.
  Capacity least_cut(const std::vector<Vertex>& inside, const std::vector<Vertex>& outside, Capacity most) {
    const Vertex source = ports_.vertices(), sink = source + 1;
    const auto is_in = [](const std::vector<Vertex>& set, Vertex v) {
      return std::find(set.begin(), set.end(), v) != set.end();
    };
    const bool has_rank = std::any_of(outside.begin(), outside.end(), [&](Vertex v) { return ports_.is_rank(v); });
    MaxFlow flow(sink + 1);
    ports_.add_arcs(flow);
    add_source(flow, source, demand_);
    for (const Vertex v : inside) flow.add(source, v, kUnlimited);
    for (const Vertex v : outside) flow.add(v, sink, kUnlimited);
    std::vector<uint32_t> last;  // from each rank to the sink
    for (Vertex rank = 0; ports_.is_rank(rank); ++rank) last.push_back(flow.add(rank, sink, 0));
    const auto ranks = static_cast<Vertex>(demand_.size());
    const Vertex start = first_;
    for (Vertex i = 0; i < ranks && most > 0; ++i) {
      const Vertex rank = (start + i) % ranks;
      if (is_in(inside, rank)) continue;
      if (!has_rank) flow.set(last[rank], kUnlimited);
      const Capacity slack = std::max<Capacity>(0, flow.value(source, sink) - all_);
      if (slack < most && !has_rank) first_ = rank;
      most = std::min(most, slack);
      if (has_rank) break;
      flow.set(last[rank], 0);
    }
    return most;
  }

  const Ports& ports_;
  const Demand& demand_;
  int64_t all_;
  Vertex first_ = 0;  // the rank that limited the last pair often limits the next one, and no slack needs one flow then
};

/// Pairs of arcs through one switch.
class Splitter {
 public:
  Splitter(Ports& ports, const Demand& demand, Vertex w, unsigned attempt)
      : ports_(ports), slack_(ports, demand), w_(w) {
    for (const auto& [u, unused] : ports.in(w)) {
      for (const auto& [t, unused_too] : ports.out(w)) pairs_.emplace_back(u, t);
    }
    if (attempt > 0) std::shuffle(pairs_.begin(), pairs_.end(), std::mt19937(attempt));
  }

  /// As much as can be of those for which `takes` is true. `shared`: none takes more than its share, so that trees
  /// become bushy rather than long.
  void split(bool shared, const std::function<bool(Vertex, Vertex)>& takes) {
    for (const auto& [u, t] : pairs_) {
      Capacity most = std::min(ports_.capacity(u, w_), ports_.capacity(w_, t));
      if (most == 0 || !takes(u, t)) continue;
      const auto others = static_cast<Capacity>(std::max<size_t>(2, ports_.out(w_).size()) - 1);
      if (shared) most = std::min(most, (ports_.capacity(u, w_) + others - 1) / others);
      most = slack_.of(u, w_, t, most);
      if (most > 0) ports_.split_off(u, w_, t, most);
    }
  }

 private:
  Ports& ports_;
  Slack slack_;
  Vertex w_;
  std::vector<std::pair<Vertex, Vertex>> pairs_;
};

/// First what messages pass; then what no tree needs is lost, both directions of a port alike; then the rest, over
/// which messages take another way than the one that is counted.
void split_exactly(Ports& ports, const Network& network, const Demand& demand, Vertex w, unsigned attempt) {
  Splitter splitter(ports, demand, w, attempt);
  const auto passes = [&](Vertex u, Vertex t) { return u != t && network.passes(u, w, t); };
  if (attempt % 2 == 0) splitter.split(true, passes);
  splitter.split(false, passes);
  splitter.split(false, [](Vertex u, Vertex t) { return u == t; });
  splitter.split(false, [](Vertex u, Vertex t) { return u != t; });
  ports.drop(w);
}

/// The switches: those with few ports first, so that the network between hosts comes last.
std::vector<Vertex> switches_in_order(const Network& network) {
  std::vector<size_t> degree(network.vertices);
  for (const Arc& arc : network.arcs) ++degree[arc.from];
  std::vector<Vertex> order(network.vertices - static_cast<Vertex>(network.ranks));
  std::iota(order.begin(), order.end(), static_cast<Vertex>(network.ranks));
  std::stable_sort(order.begin(), order.end(), [&](Vertex a, Vertex b) { return degree[a] < degree[b]; });
  return order;
}

/// All switches by one pattern, with one test at the end; none where the ports of a switch do not fit the pattern.
std::optional<Network> all_by(Pattern pattern, const Network& network, const Demand& demand) {
  Ports ports(network);
  for (const Vertex w : switches_in_order(network)) {
    if (!ports.join_two(w) && !ports.join_gate(w, network, sum(demand)) && !ports.join(w, network, pattern)) return {};
  }
  Network joined = ports.network(network);
  if (!supports(joined, demand)) return {};
  return joined;
}

/// One switch by the first pattern that keeps the demand supported, or exactly. Returns which it was.
Pattern remove(Vertex w, Ports& ports, const Network& network, const Demand& demand, std::span<const Pattern> patterns,
               unsigned attempt) {
  if (ports.join_two(w) || ports.join_gate(w, network, sum(demand))) return patterns.front();
  for (const Pattern pattern : patterns) {
    Ports joined = ports;
    if (!joined.join(w, network, pattern) || !supports(joined.whole(network), demand)) continue;
    ports = std::move(joined);
    return pattern;
  }
  split_exactly(ports, network, demand, w, attempt);
  return Pattern::Exact;
}

}  // namespace

bool supports(const Network& network, const Demand& demand) {
  const Vertex source = network.vertices;
  MaxFlow flow(network.vertices + 1);
  for (const Arc& arc : network.arcs) flow.add(arc.from, arc.to, arc.capacity);
  add_source(flow, source, demand);
  const int64_t all = sum(demand);
  for (Vertex rank = 0; network.is_rank(rank); ++rank) {
    if (flow.value(source, rank) < all) return false;
  }
  return true;
}

Network without_switches(const Network& network, const Demand& demand, unsigned attempt, Pattern* used) {
  constexpr Rank kFew = 64;  // of more ranks, many arcs make packing slow
  std::vector<Pattern> patterns = {Pattern::Spread, Pattern::Doubling, Pattern::Ring};
  if (network.ranks > kFew) std::rotate(patterns.begin(), patterns.begin() + 1, patterns.end());
  for (const Pattern pattern : patterns) {
    if (used != nullptr) *used = pattern;
    if (std::optional<Network> joined = all_by(pattern, network, demand)) return *std::move(joined);
  }
  Ports ports(network);
  for (const Vertex w : switches_in_order(network)) {
    const Pattern pattern = remove(w, ports, network, demand, patterns, attempt);
    if (used != nullptr) *used = std::max(*used, pattern);
  }
  Network left = ports.network(network);
  if (!supports(left, demand)) throw_error(Code::InternalError, "switches were removed, and trees do not fit any more");
  return left;
}

}  // namespace tutti::synth
