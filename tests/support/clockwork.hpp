// The time that plans take if only messages take time.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan {

/// A link takes one unit of time per message, one after the other; steps take none; every lane goes through the rounds
/// independently.
class Clockwork {
 public:
  Clockwork(const std::vector<RankPlan>& plans, int rounds) : plans_(plans), rounds_(rounds) {}

  /// The time of the last step of the last round, or of the last step before a deadlock.
  int64_t run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < static_cast<int>(plans_.size()); ++rank) {
        for (int lane = 0; lane < static_cast<int>(plans_[static_cast<size_t>(rank)].lanes.size()); ++lane) {
          while (try_step(rank, lane)) progress = true;
        }
      }
    }
    return end_;
  }

 private:
  using Key = std::array<int, 3>;
  struct LaneClock {
    int round = 0;
    uint32_t step = 0;
    int64_t now = 0;
  };
  struct Link {
    std::vector<int64_t> arrivals;
    size_t taken = 0;
  };

  bool try_step(int rank, int lane) {
    const RankPlan& plan = plans_[static_cast<size_t>(rank)];
    const Range steps = plan.lanes[static_cast<size_t>(lane)].steps;
    LaneClock& clock = lanes_[{rank, lane, 0}];
    if (clock.round == rounds_ || steps.size() == 0) return false;
    const uint32_t index = steps.begin + clock.step;
    const Step& step = plan.steps[index];
    int64_t start = clock.now;
    if (step.after != kNone) {
      const auto done = done_.find({rank, static_cast<int>(step.after), clock.round});
      if (done == done_.end()) return false;
      start = std::max(start, done->second);
    }
    std::vector<Link*> received;
    if (step.kind == StepKind::Recv) received.push_back(&links_[{plan.peers[step.peers.begin], rank, lane}]);
    for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
      if (plan.operands[i].peer != kNoRank) received.push_back(&links_[{plan.operands[i].peer, rank, lane}]);
    }
    for (const Link* link : received) {
      if (link->taken == link->arrivals.size()) return false;
      start = std::max(start, link->arrivals[link->taken]);
    }
    for (Link* link : received) ++link->taken;
    for (uint32_t i = step.peers.begin; step.kind == StepKind::Send && i < step.peers.end; ++i) {
      auto& arrivals = links_[{rank, plan.peers[i], lane}].arrivals;
      arrivals.push_back(std::max(start, arrivals.empty() ? 0 : arrivals.back()) + 1);
    }
    clock.now = done_[{rank, static_cast<int>(index), clock.round}] = start;
    end_ = std::max(end_, start);
    if (++clock.step == steps.size()) clock.step = 0, ++clock.round;
    return true;
  }

  const std::vector<RankPlan>& plans_;
  const int rounds_;
  std::map<Key, LaneClock> lanes_;  // of a rank's lane
  std::map<Key, Link> links_;       // from, to, lane
  std::map<Key, int64_t> done_;     // of a rank's step in a round
  int64_t end_ = 0;
};

inline int64_t time_of(const std::vector<RankPlan>& plans, int rounds) { return Clockwork(plans, rounds).run(); }

}  // namespace tutti::plan
