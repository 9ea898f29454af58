// Chains of dependent messages in plans: a chain follows the steps of a lane in order, `after`, and messages.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan {

/// A received message: its sender, and its part of the window.
struct Passed {
  Rank from = 0, to = 0;
  double length = 0;
};

/// The length of pieces, in windows of a block.
inline double length_of(const RankPlan& plan, Range pieces) {
  double length = 0;
  for (uint32_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = plan.pieces[i];
    const Partition& cut = plan.partitions[piece.partition];
    const auto bound = [&](uint32_t at) {
      if (cut.bounds == kNone) return static_cast<double>(at) / cut.parts;
      const Fraction& f = plan.fractions[cut.bounds + at];
      return static_cast<double>(f.num) / f.den;
    };
    length += bound(piece.last) - bound(piece.first);
  }
  return length;
}

/// The weight of the heaviest chain, when a message weighs weigh(message). One round; links hold any number of
/// messages.
template <class Weigh>
double heaviest_chain(const std::vector<RankPlan>& plans, const Weigh& weigh) {
  std::map<std::tuple<Rank, Rank, size_t>, std::vector<std::pair<double, double>>> links;  // chain so far, length
  std::map<std::tuple<Rank, Rank, size_t>, size_t> taken;
  std::map<std::pair<Rank, uint32_t>, double> done;  // by rank and step
  std::map<std::pair<Rank, size_t>, std::pair<uint32_t, double>> lanes;
  double heaviest = 0;
  const auto try_step = [&](const RankPlan& plan, size_t lane) {
    auto& [at, weight] = lanes[{plan.rank, lane}];
    const Range steps = plan.lanes[lane].steps;
    if (at == steps.size()) return false;
    const Step& step = plan.steps[steps.begin + at];
    double start = weight;
    if (step.after != kNone) {
      const auto found = done.find({plan.rank, step.after});
      if (found == done.end()) return false;
      start = std::max(start, found->second);
    }
    std::vector<Rank> received;
    if (step.kind == StepKind::Recv) received.push_back(plan.peers[step.peers.begin]);
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      if (plan.operands[o].peer != kNoRank) received.push_back(plan.operands[o].peer);
    }
    for (const Rank from : received) {
      const auto& link = links[{from, plan.rank, lane}];
      const size_t next = taken[{from, plan.rank, lane}];
      if (next == link.size()) return false;
      start = std::max(start, link[next].first + weigh(Passed{from, plan.rank, link[next].second}));
    }
    for (const Rank from : received) ++taken[{from, plan.rank, lane}];
    for (uint32_t p = step.peers.begin; step.kind == StepKind::Send && p < step.peers.end; ++p) {
      links[{plan.rank, plan.peers[p], lane}].emplace_back(start, length_of(plan, step.pieces));
    }
    weight = done[{plan.rank, steps.begin + at}] = start;
    heaviest = std::max(heaviest, start);
    ++at;
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (const RankPlan& plan : plans) {
      for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
        while (try_step(plan, lane)) progress = true;
      }
    }
  }
  return heaviest;
}

}  // namespace tutti::plan
