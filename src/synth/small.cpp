#include "synth/small.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "plan/builder.hpp"

namespace tutti::synth {
namespace {

using plan::Pieces;
using plan::PlanBuilder;
using plan::Source;
using plan::View;

constexpr size_t kMaxSides = 7;    // of an exchange: names have room for as many
constexpr Rank kMaxRadix = 8;      // of dissemination
constexpr Rank kMaxRadices = 128;  // ranks, of exchanges with more than two sides

/// Calls make(rank, builder) for each rank.
template <class Make>
std::vector<plan::RankPlan> plans_by(Collective collective, Rank ranks, const Make& make) {
  std::vector<plan::RankPlan> plans;
  for (Rank me = 0; me < ranks; ++me) {
    PlanBuilder plan({collective, ranks}, me);
    make(me, plan);
    plans.push_back(plan.finish());
  }
  return plans;
}

/// One rank's view of an exchange.
class Box {
 public:
  Box(const std::vector<Rank>& radices, Rank me) : radices_(radices), me_(me) {
    for (const Rank radix : radices) {
      strides_.push_back(ranks_);
      ranks_ *= radix;
    }
  }
  Rank ranks() const { return ranks_; }
  /// Where a rank lies along a side.
  Rank place(Rank rank, size_t side) const { return rank / strides_[side] % radices_[side]; }
  /// The ranks of my row along a side, in order.
  std::vector<Rank> row(size_t side) const {
    std::vector<Rank> row;
    const Rank first = me_ - place(me_, side) * strides_[side];
    for (Rank i = 0; i < radices_[side]; ++i) row.push_back(first + i * strides_[side]);
    return row;
  }
  /// All ranks that lie where `rank` does along these sides.
  std::vector<Rank> like(Rank rank, const std::vector<size_t>& sides) const {
    std::vector<Rank> all;
    for (Rank other = 0; other < ranks_; ++other) {
      const bool same =
          std::all_of(sides.begin(), sides.end(), [&](size_t side) { return place(other, side) == place(rank, side); });
      if (same) all.push_back(other);
    }
    return all;
  }

 private:
  const std::vector<Rank>& radices_;
  Rank me_, ranks_ = 1;
  std::vector<Rank> strides_;
};

std::vector<Rank> without(std::vector<Rank> ranks, Rank one) {
  std::erase(ranks, one);
  return ranks;
}

Pieces blocks_of(const View& view, const std::vector<Rank>& blocks) {
  Pieces pieces;
  for (const Rank block : blocks) pieces += view.block(block);
  return pieces;
}

/// Each rank knows the blocks of all that lie where it does along the sides that are still to come.
void gather(const Box& box, const std::vector<size_t>& phases, Rank me, PlanBuilder& plan) {
  auto lane = plan.lane();
  const View out = plan.output();
  std::vector<size_t> rest = phases;
  for (const size_t side : phases) {
    const std::vector<Rank> peers = without(box.row(side), me);
    const bool first = rest.size() == phases.size();
    lane.lend(first ? Pieces(plan.input().all()) : blocks_of(out, box.like(me, rest)), peers);
    if (first) lane.copy(out.block(me), plan.input().all());
    for (const Rank peer : peers) lane.recv(blocks_of(out, box.like(peer, rest)), peer);
    std::erase(rest, side);
  }
}

/// Each rank has the partial sums, over the sides done, of the blocks of all that lie where it does along them.
void scatter(const Box& box, const std::vector<size_t>& phases, Rank me, PlanBuilder& plan) {
  auto lane = plan.lane();
  std::vector<size_t> done;
  View from = plan.input();
  std::vector<Rank> held = box.like(me, {});  // blocks, in the order in which `from` has them
  const auto piece = [&](const View& view, const std::vector<Rank>& blocks) {
    Pieces pieces;
    for (const Rank block : blocks) {
      const auto at = std::find(held.begin(), held.end(), block) - held.begin();
      pieces += view.block(static_cast<Rank>(at));
    }
    return pieces;
  };
  for (const size_t side : phases) {
    done.push_back(side);
    const std::vector<Rank> row = box.row(side);
    const auto share_of = [&](Rank rank) { return box.like(rank, done); };
    for (const Rank peer : without(row, me)) {
      done.size() == 1 ? lane.lend(piece(from, share_of(peer)), peer) : lane.send(piece(from, share_of(peer)), peer);
    }
    std::vector<Source> sources;
    for (const Rank rank : row) sources.push_back(rank == me ? Source(piece(from, share_of(me))) : lane.from(rank));
    if (done.size() == phases.size()) {
      lane.complete(plan.output().all(), sources);
      return;
    }
    const std::vector<Rank> mine = share_of(me);
    const View sums = plan.scratch(static_cast<Rank>(mine.size()));
    Pieces all;
    for (size_t i = 0; i < mine.size(); ++i) all += sums.block(static_cast<Rank>(i));
    lane.reduce(all, sources);
    held = mine;
    from = sums;
  }
}

/// Each rank has the sum over the sides done.
void fold(const Box& box, const std::vector<size_t>& phases, Rank me, PlanBuilder& plan) {
  auto lane = plan.lane();
  View from = plan.input();
  for (size_t i = 0; i < phases.size(); ++i) {
    const std::vector<Rank> row = box.row(phases[i]);
    const std::vector<Rank> peers = without(row, me);
    i == 0 ? lane.lend(from.all(), peers, plan::Lend::OutOfPlace) : lane.send(from.all(), peers);
    std::vector<Source> sources;
    for (const Rank rank : row) sources.push_back(rank == me ? Source(from.all()) : lane.from(rank));
    if (i + 1 == phases.size()) {
      lane.complete(plan.output().all(), sources);
      return;
    }
    const View sum = plan.scratch(1);
    lane.reduce(sum.all(), sources);
    from = sum;
  }
}

/// All ways to write `n` as a product of factors from 2 on, in any order.
void factorise(Rank n, std::vector<Rank>& factors, std::vector<std::vector<Rank>>& all) {
  if (n == 1) {
    if (!factors.empty()) all.push_back(factors);
    return;
  }
  if (factors.size() == kMaxSides) return;
  for (Rank factor = 2; factor <= n; ++factor) {
    if (n % factor != 0) continue;
    factors.push_back(factor);
    factorise(n / factor, factors, all);
    factors.pop_back();
  }
}

void add_exchanges(Collective collective, Rank ranks, std::vector<SmallPlan>& all) {
  std::vector<std::vector<Rank>> boxes;
  std::vector<Rank> factors;
  factorise(ranks, factors, boxes);
  for (const std::vector<Rank>& radices : boxes) {
    if (ranks > kMaxRadices && radices.size() > 2) continue;
    for (const bool inner_first : {true, false}) {
      if (radices.size() == 1 && !inner_first) continue;
      all.push_back({fmt::format("{}{}", fmt::join(radices, "x"), inner_first ? "" : "_back"),
                     exchange_plans(collective, radices, inner_first)});
    }
  }
}

}  // namespace

std::vector<plan::RankPlan> tree_plans(Collective collective, const LatencyTree& tree) {
  const auto ranks = static_cast<Rank>(tree.parents.size());
  return plans_by(collective, ranks, [&](Rank me, PlanBuilder& plan) {
    const Rank parent = tree.parents[static_cast<size_t>(me)];
    const std::vector<Rank>& children = tree.children[static_cast<size_t>(me)];
    const plan::Piece in = plan.input().all(), out = plan.output().all();
    plan::StepRef turn;
    if (collective != Collective::Broadcast) {
      auto up = plan.lane();
      std::vector<Source> sources = {in};
      for (auto child = children.rbegin(); child != children.rend(); ++child) sources.push_back(up.from(*child));
      if (children.empty()) {
        up.lend(in, parent, collective == Collective::Reduce ? plan::Lend::Always : plan::Lend::OutOfPlace);
      } else if (parent == kNoRank) {
        turn = up.complete(out, sources);
      } else {
        const plan::Piece sum = plan.scratch(1).all();
        up.reduce(sum, sources);
        up.send(sum, parent);
      }
    }
    if (collective == Collective::Reduce) return;
    auto down = plan.lane();
    if (parent != kNoRank) {
      down.recv(out, parent);
      if (!children.empty()) down.lend(out, children);
    } else if (collective == Collective::Broadcast) {
      down.lend(in, children);
      down.copy(out, in);
    } else {
      down.after(turn).lend(out, children);
    }
  });
}

std::vector<plan::RankPlan> exchange_plans(Collective collective, const std::vector<Rank>& radices, bool inner_first) {
  std::vector<size_t> phases;
  for (size_t side = 0; side < radices.size(); ++side) phases.push_back(side);
  if (!inner_first) std::reverse(phases.begin(), phases.end());
  return plans_by(collective, Box(radices, 0).ranks(), [&](Rank me, PlanBuilder& plan) {
    const Box box(radices, me);
    if (collective == Collective::AllGather) return gather(box, phases, me, plan);
    if (collective == Collective::ReduceScatter) return scatter(box, phases, me, plan);
    fold(box, phases, me, plan);
  });
}

std::vector<plan::RankPlan> dissemination_plans(Rank ranks, Rank radix) {
  return plans_by(Collective::AllGather, ranks, [&](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    const View out = plan.output();
    // Blocks of `count` ranks from `first` on.
    const auto blocks = [&](Rank first, Rank count) {
      Pieces pieces;
      for (Rank i = 0; i < count; ++i) pieces += out.block((first + i) % ranks);
      return pieces;
    };
    for (Rank step = 1; step < ranks; step *= radix) {
      std::vector<std::pair<Rank, Rank>> told;  // distance, and blocks
      for (Rank i = 1; i < radix && i * step < ranks; ++i)
        told.emplace_back(i * step, std::min(step, ranks - i * step));
      for (const auto& [distance, count] : told) {
        const Rank to = (me - distance % ranks + ranks) % ranks;
        lane.lend(step == 1 ? Pieces(plan.input().all()) : blocks(me, count), to);
      }
      if (step == 1) lane.copy(out.block(me), plan.input().all());
      for (const auto& [distance, count] : told) {
        const Rank from = (me + distance) % ranks;
        lane.recv(blocks(from, count), from);
      }
    }
  });
}

std::vector<SmallPlan> small_plans(Collective collective, const Postal& postal) {
  const Rank ranks = postal.ranks();
  std::vector<SmallPlan> all;
  if (ranks < 2) return all;
  switch (collective) {
    case Collective::AllGather:
      for (Rank radix = 2; radix <= std::min(kMaxRadix, ranks); ++radix) {
        all.push_back({fmt::format("bruck{}", radix), dissemination_plans(ranks, radix)});
      }
      [[fallthrough]];
    case Collective::ReduceScatter:
      add_exchanges(collective, ranks, all);
      break;
    case Collective::AllReduce:
      add_exchanges(collective, ranks, all);
      [[fallthrough]];
    case Collective::Broadcast:
    case Collective::Reduce:
      all.push_back({"tree", tree_plans(collective, fastest_tree(postal, 0))});
      break;
    default:
      break;
  }
  return all;
}

}  // namespace tutti::synth
