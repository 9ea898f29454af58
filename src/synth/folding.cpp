#include "synth/folding.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "synth/cuts.hpp"

namespace tutti::synth {
namespace {

/// Ranks, and then folding switches.
std::vector<Vertex> agents_of(const Network& network) {
  std::vector<Vertex> agents;
  for (Vertex rank = 0; network.is_rank(rank); ++rank) agents.push_back(rank);
  agents.insert(agents.end(), network.folding.begin(), network.folding.end());
  return agents;
}

/// The best of all splits of the agents into parts with a rank: over sets of agents, since a part's way out does not
/// depend on what the others are.
class AllSplits {
 public:
  explicit AllSplits(const Network& network)
      : network_(network),
        agents_(agents_of(network)),
        all_((Set{1} << agents_.size()) - 1),
        ranks_((Set{1} << static_cast<size_t>(network.ranks)) - 1),
        out_(all_ + 1) {
    for (Set set = 1; set < all_; ++set) {
      if ((set & ranks_) != 0 && (ranks_ & ~set) != 0)
        out_[set] = minimum_cut(network_, in(set), in(all_ & ~set)).first;
    }
  }

  /// The least ways out of so many parts, and the tightest of them.
  Cut find() {
    Cut best;
    std::vector<Capacity> least(all_ + 1, kNone);  // by set, of `parts` parts
    least[0] = 0;
    std::vector<std::vector<Set>> last;  // by parts − 1, by set: one of the parts
    for (Rank parts = 1; parts <= network_.ranks; ++parts) {
      std::vector<Capacity> more(all_ + 1, kNone);
      last.emplace_back(all_ + 1);
      for (Set set = 1; set <= all_; ++set) add_part(set, least, more[set], last.back()[set]);
      least = std::move(more);
      const Capacity out = least[all_];
      const Ratio must{2 * int64_t{parts - 1}, out};
      if (parts == 1 || out >= kNone || (!best.sides.empty() && !(best.must < must))) continue;
      best = cut_of_parts(network_, labels_of(last));
    }
    return best;
  }

 private:
  using Set = uint32_t;
  static constexpr Capacity kNone = std::numeric_limits<Capacity>::max() / 4;

  std::vector<bool> in(Set set) const {
    std::vector<bool> vertices(network_.vertices);
    for (size_t i = 0; i < agents_.size(); ++i) vertices[agents_[i]] = (set >> i & 1) != 0;
    return vertices;
  }

  /// The part with the set's first agent, which may be any, and what `least` has of the others.
  void add_part(Set set, const std::vector<Capacity>& least, Capacity& best, Set& last) const {
    const Set first = set & (~set + 1), others = set & ~first;
    for (Set with = others;; with = (with - 1) & others) {
      const Set part = first | with;
      const Capacity rest = least[set & ~part];
      const bool may = part == all_ || out_[part] > 0;
      if (may && rest < kNone && rest + out_[part] < best) best = rest + out_[part], last = part;
      if (with == 0) return;
    }
  }

  std::vector<uint32_t> labels_of(const std::vector<std::vector<Set>>& last) const {
    std::vector<uint32_t> labels(network_.vertices, kNoPart);
    Set left = all_;
    for (uint32_t part = 0; part < last.size(); ++part) {
      const Set taken = last[last.size() - 1 - part][left];
      for (size_t i = 0; i < agents_.size(); ++i) {
        if ((taken >> i & 1) != 0) labels[agents_[i]] = part;
      }
      left &= ~taken;
    }
    return labels;
  }

  const Network& network_;
  std::vector<Vertex> agents_;
  Set all_, ranks_;
  std::vector<Capacity> out_;  // by set of agents; 0: ranks are not on both sides
};

/// Splits that are likely to be tight.
class LikelySplits {
 public:
  explicit LikelySplits(const Network& network) : network_(network), ranks_(static_cast<size_t>(network.ranks)) {
    for (const Vertex switching : network.folding) {
      for (const Arc& arc : network.arcs) {
        if (arc.to == switching && network.is_rank(arc.from)) on_[switching][arc.from] = arc.capacity;
      }
    }
  }

  Cut find() {
    const uint32_t hosts = 1 + *std::max_element(network_.hosts.begin(), network_.hosts.end());
    const auto rank = [](size_t of) { return static_cast<uint32_t>(of); };
    take(rank);
    if (hosts > 1) take([&](size_t of) { return network_.hosts[of]; });
    for (uint32_t host = 0; hosts > 1 && host < hosts; ++host) {
      const auto single = [&](size_t of, uint32_t other) { return network_.hosts[of] == host ? rank(of) : other; };
      take([&](size_t of) { return single(of, static_cast<uint32_t>(ranks_) + network_.hosts[of]); });
      take([&](size_t of) { return single(of, static_cast<uint32_t>(ranks_)); });
    }
    take([&](size_t of) {  // islands
      for (const auto& [switching, ranks] : on_) {
        if (ranks.contains(static_cast<Vertex>(of))) return static_cast<uint32_t>(ranks_) + switching;
      }
      return rank(of);
    });
    return best_;
  }

 private:
  template <class Label>
  void take(const Label& label) {
    std::map<uint32_t, uint32_t> numbers;  // from 0 on
    std::vector<uint32_t> labels(network_.vertices, kNoPart);
    for (size_t of = 0; of < ranks_; ++of) {
      labels[of] = numbers.emplace(label(of), static_cast<uint32_t>(numbers.size())).first->second;
    }
    if (numbers.size() < 2 || !tried_.insert(labels).second) return;
    for (const Vertex switching : network_.folding) labels[switching] = labels[widest(switching)];
    keep_tighter(best_, cut_of_parts(network_, labels));
  }

  /// The rank with the widest link to it; of several, the first. A switch that no rank is on may be in any part.
  Vertex widest(Vertex switching) const {
    Vertex found = 0;
    Capacity most = 0;
    const auto on = on_.find(switching);
    if (on == on_.end()) return found;
    for (const auto& [rank, capacity] : on->second) {
      if (capacity > most) found = rank, most = capacity;
    }
    return found;
  }

  const Network& network_;
  size_t ranks_;
  std::map<Vertex, std::map<Vertex, Capacity>> on_;  // by folding switch: its ranks
  std::set<std::vector<uint32_t>> tried_;
  Cut best_;
};

/// The buffer crosses each cut that has a rank on both of its sides. A minimum cut separates rank 0 from some other.
Cut of_two_sides(const Network& network) {
  Cut best;
  const auto one = [&](Vertex rank) {
    std::vector<bool> set(static_cast<size_t>(network.ranks));
    set[rank] = true;
    return set;
  };
  for (Vertex rank = 1; network.is_rank(rank); ++rank) {
    for (const auto& [from, to] : {std::pair(Vertex{0}, rank), std::pair(rank, Vertex{0})}) {
      auto [out, side] = minimum_cut(network, one(from), one(to));
      keep_tighter(best, {{1, out}, {std::move(side)}});
    }
  }
  return best;
}

/// Does a switch that folds for all ranks reach it? They send it the buffer, and it sends them the sum.
bool is_met(const Network& network, const Ratio& must) {
  for (const Vertex switching : network.folding) {
    Capacity least = std::numeric_limits<Capacity>::max();
    Rank up = 0, down = 0;
    for (const Arc& arc : network.arcs) {
      const bool goes_up = arc.to == switching && network.is_rank(arc.from);
      const bool goes_down = arc.from == switching && network.is_rank(arc.to);
      up += goes_up ? 1 : 0;
      down += goes_down ? 1 : 0;
      if (goes_up || goes_down) least = std::min(least, arc.capacity);
    }
    if (up == network.ranks && down == network.ranks && must == Ratio{1, least}) return true;
  }
  return false;
}

}  // namespace

Bound folding_bound_of(const Network& network, size_t all_splits) {
  Bound bound{.cut = {}, .buffer = 1, .exact = network.exact, .unit = network.unit, .folding = true};
  if (network.ranks == 1) return bound;
  bound.cut = of_two_sides(network);
  const size_t agents = static_cast<size_t>(network.ranks) + network.folding.size();
  keep_tighter(bound.cut, agents <= all_splits ? AllSplits(network).find() : LikelySplits(network).find());
  bound.exact = network.exact && is_met(network, bound.cut.must);
  bound.us = farthest_us(network, std::vector<int64_t>(static_cast<size_t>(network.ranks), 1));
  return bound;
}

}  // namespace tutti::synth
