#include "select/small_plans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/cancel.hpp"
#include "plan/traffic.hpp"
#include "select/model.hpp"
#include "select/pairs.hpp"

namespace tutti::select {
namespace {

constexpr size_t kMaxKept = 3;
constexpr double kAsFast = 1.01;  // plans that are so near to the best one win nothing
constexpr uint64_t kSmallest = 8, kLargest = 1 << 20, kFactor = 8;  // bytes of a block

/// Seconds of a round beside its messages, by the cheapest method that can be used.
double round_of(const CostInputs& inputs) {
  double least = std::numeric_limits<double>::infinity();
  for (const UsableMethod& usable : inputs.methods) {
    if (!usable.why_not.empty() || usable.method->only_modelled || usable.method->supports != nullptr) continue;
    if (usable.method->price == nullptr) return 0;
    plan::Cost cost;
    auto prices = prices_of(inputs);
    const double alpha = prices.inside.alpha;
    usable.method->price(cost, prices, inputs.ranks, 1);
    least = std::min(least, std::max(0.0, prices.inside.alpha - alpha));
  }
  return std::isfinite(least) ? least : 0;
}

}  // namespace

std::optional<MessageCosts> MessageCosts::of(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                             const CostInputs& inputs) {
  if (ranks.size() < 2 || ranks.size() > static_cast<size_t>(synth::kMaxPostalRanks)) return {};
  RankNodes places{.nodes = ranks, .hosts = {}};
  std::map<topo::NodeId, Rank> hosts;
  for (const topo::NodeId node : ranks) {
    places.hosts.push_back(hosts.emplace(graph.host_of(node), static_cast<Rank>(hosts.size())).first->second);
  }
  MessageCosts costs;
  costs.ranks_ = static_cast<Rank>(ranks.size());
  costs.share_ = inputs.inside.alpha > 0 ? inputs.inside.message / inputs.inside.alpha : 0;
  costs.round_ = round_of(inputs);
  try {
    const Pairs pairs(graph, std::move(places));
    for (Rank from = 0; from < costs.ranks_; ++from) {
      for (Rank to = 0; to < costs.ranks_; ++to) {
        const PairCost pair = from == to ? PairCost{} : pairs.from(from, {to}).front();
        costs.alpha_.push_back(pair.alpha);
        costs.beta_.push_back(pair.beta);
      }
    }
  } catch (const Error& error) {
    if (error.code() != Code::InvalidArgument) throw;
    return {};
  }
  return costs;
}

MessageCosts MessageCosts::on(const plan::RankOrder& order) const {
  MessageCosts seen = *this;
  const auto n = static_cast<size_t>(ranks_);
  const auto actual = [&](size_t planned) {
    return static_cast<size_t>(order.actual(static_cast<Rank>(planned), 0, ranks_));
  };
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      seen.alpha_[from * n + to] = alpha_[actual(from) * n + actual(to)];
      seen.beta_[from * n + to] = beta_[actual(from) * n + actual(to)];
    }
  }
  return seen;
}

synth::Postal MessageCosts::postal() const {
  std::vector<double> latency = alpha_;
  for (double& seconds : latency) seconds += round_;
  return {ranks_, std::move(latency), share_, -share_ * round_};
}

double MessageCosts::seconds(const std::vector<plan::RankPlan>& plans, uint64_t block) const {
  return plan::longest_chain(plans, [&](Rank from, Rank to, double amount) {
    const size_t at = static_cast<size_t>(from) * static_cast<size_t>(ranks_) + static_cast<size_t>(to);
    const double bytes = amount * static_cast<double>(block) * beta_[at];
    return plan::MessageCost{alpha_[at] + round_ + bytes, share_ * alpha_[at] + bytes};
  });
}

std::vector<synth::SmallPlan> best_small_plans(Collective collective, const MessageCosts& costs) {
  std::vector<synth::SmallPlan> all = synth::small_plans(collective, costs.postal());
  std::map<size_t, size_t> wins;  // by plan: of sizes
  for (uint64_t block = kSmallest; block <= kLargest && !all.empty(); block *= kFactor) {
    std::vector<double> seconds;
    for (const synth::SmallPlan& one : all) {
      check_cancelled();
      seconds.push_back(costs.seconds(one.plans, block));
    }
    const double least = *std::min_element(seconds.begin(), seconds.end());
    // One that has won before stays as long as it is as fast.
    const auto before =
        std::find_if(wins.begin(), wins.end(), [&](const auto& one) { return seconds[one.first] <= kAsFast * least; });
    const auto best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    ++wins[before != wins.end() ? before->first : static_cast<size_t>(best)];
  }
  std::vector<std::pair<size_t, size_t>> order;
  for (const auto& [plan, sizes] : wins) order.emplace_back(sizes, plan);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<synth::SmallPlan> kept;
  for (size_t i = 0; i < std::min(kMaxKept, order.size()); ++i) kept.push_back(std::move(all[order[i].second]));
  return kept;
}

}  // namespace tutti::select
