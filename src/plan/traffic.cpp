#include "plan/traffic.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace tutti::plan {
namespace {

double amount_of(const RankPlan& plan, Range pieces) {
  double amount = 0;
  for (uint32_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = plan.pieces[i];
    const auto at = [&](uint32_t index) {
      const Fraction f = boundary(plan, piece.partition, index);
      return static_cast<double>(f.num) / f.den;
    };
    amount += at(piece.last) - at(piece.first);
  }
  return amount;
}

/// Steps of all ranks' lanes, taken as soon as what they wait for has come.
class Replay {
 public:
  using Cost = std::function<MessageCost(Rank from, Rank to, double amount)>;
  Replay(std::span<const RankPlan> plans, const Cost& cost) : plans_(plans), cost_(cost) {
    size_t lanes = 0;
    for (const RankPlan& plan : plans) {
      lanes = std::max(lanes, plan.lanes.size());
      times_.emplace_back(plan.lanes.size(), 0.0);
      done_.emplace_back(plan.steps.size(), kNotYet);
      taken_.emplace_back(plan.lanes.size());
      std::vector<uint32_t>& next = next_.emplace_back();
      for (const Lane& lane : plan.lanes) next.push_back(lane.steps.begin);
    }
    link_.resize(lanes * plans.size() * plans.size(), kNone);
  }

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < plans_.size(); ++rank) {
        for (size_t lane = 0; lane < plans_[rank].lanes.size(); ++lane) {
          while (next_[rank][lane] < plans_[rank].lanes[lane].steps.end && take(rank, lane)) moved = true;
        }
      }
    }
    double last = 0;
    for (const auto& lanes : times_) {
      for (const double time : lanes) last = std::max(last, time);
    }
    return last;
  }

 private:
  static constexpr double kNotYet = -1;
  struct Message {
    double at = 0, busy = 0;
  };
  /// Messages that a lane has taken since it last sent: each one costs it time, but it takes them as they come.
  struct Taken {
    double begun = 0, earliest = kNever, latest = 0;
    int count = 0;

    double add(const Message& message) {
      earliest = std::min(earliest, message.at);
      latest = std::max(latest, message.at);
      ++count;
      return std::max({begun, latest, std::max(begun, earliest) + (count - 1) * message.busy});
    }
  };
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// Messages of a lane from one rank to another: those before `first` have been taken.
  struct Queue {
    std::vector<Message> messages;
    size_t first = 0;
    bool empty() const { return first == messages.size(); }
    Message pop() { return messages[first++]; }
  };

  Queue& under_way(Rank from, Rank to, size_t lane) {
    const auto at = [](Rank rank) { return static_cast<size_t>(rank); };
    uint32_t& link = link_[(lane * plans_.size() + at(from)) * plans_.size() + at(to)];
    if (link == kNone) {
      link = static_cast<uint32_t>(queues_.size());
      queues_.emplace_back();
    }
    return queues_[link];
  }

  /// False if the lane's next step has to wait.
  bool take(size_t rank, size_t lane) {
    const RankPlan& plan = plans_[rank];
    const uint32_t index = next_[rank][lane];
    const Step& step = plan.steps[index];
    double time = times_[rank][lane];
    if (step.after != kNone) {
      if (done_[rank][step.after] == kNotYet) return false;
      time = std::max(time, done_[rank][step.after]);
    }
    from_.clear();
    if (step.kind == StepKind::Recv) from_.push_back(plan.peers[step.peers.begin]);
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      if (plan.operands[o].peer != kNoRank) from_.push_back(plan.operands[o].peer);
    }
    for (const Rank peer : from_) {
      if (under_way(peer, plan.rank, lane).empty()) return false;
    }
    for (const Rank peer : from_) {
      Taken& taken = taken_[rank][lane];
      if (taken.count == 0) taken.begun = time;
      time = std::max(time, taken.add(under_way(peer, plan.rank, lane).pop()));
    }
    if (step.kind == StepKind::Send) {
      time = send(plan, lane, step, time);
      taken_[rank][lane] = {};
    }
    times_[rank][lane] = done_[rank][index] = time;
    ++next_[rank][lane];
    return true;
  }

  double send(const RankPlan& plan, size_t lane, const Step& step, double time) {
    const double amount = amount_of(plan, step.pieces);
    for (uint32_t p = step.peers.begin; p < step.peers.end; ++p) {
      const MessageCost cost = cost_(plan.rank, plan.peers[p], amount);
      under_way(plan.rank, plan.peers[p], lane).messages.push_back({time + cost.arrives, cost.busy});
      time += cost.busy;
    }
    return time;
  }

  const std::span<const RankPlan> plans_;
  const Cost& cost_;
  std::vector<std::vector<double>> times_;   // by rank and lane: when its last step was done
  std::vector<std::vector<double>> done_;    // by rank and step
  std::vector<std::vector<uint32_t>> next_;  // by rank and lane
  std::vector<std::vector<Taken>> taken_;    // by rank and lane
  std::vector<uint32_t> link_;               // by lane, sender and receiver: the number of its queue
  std::vector<Queue> queues_;
  std::vector<Rank> from_;  // whose messages a step takes
};

}  // namespace

std::vector<Flow> flows_of(std::span<const RankPlan> plans) {
  std::vector<Flow> flows;
  for (const RankPlan& plan : plans) {
    std::map<Rank, Flow> to;
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::Send) continue;
      const double amount = amount_of(plan, step.pieces);
      for (uint32_t p = step.peers.begin; p < step.peers.end; ++p) {
        Flow& flow = to[plan.peers[p]];
        flow = {plan.rank, plan.peers[p], flow.amount + amount};
      }
    }
    for (const auto& [peer, flow] : to) flows.push_back(flow);
  }
  return flows;
}

double published_by(const RankPlan& plan) {
  double amount = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::Send) amount += amount_of(plan, step.pieces);
  }
  return amount;
}

double longest_chain(std::span<const RankPlan> plans,
                     const std::function<MessageCost(Rank from, Rank to, double amount)>& cost) {
  return Replay(plans, cost).run();
}

}  // namespace tutti::plan
