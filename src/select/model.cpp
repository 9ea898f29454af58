#include "select/model.hpp"

#include <algorithm>
#include <cmath>

#include "topo/constants.hpp"

namespace tutti::select {
namespace {

/// The part of a cost that is inside groups, or between them.
struct Part {
  int64_t rounds = 0;
  double moved = 0, chain = 0;  // in units of the count
  int64_t stages = 0;

  double latency(const LinkCost& link_cost) const {
    return static_cast<double>(rounds) * link_cost.alpha + static_cast<double>(stages) * link_cost.message;
  }
  /// A chain of dependent messages takes at least the time of its own bytes, even if each rank moves less; with several
  /// windows, only the first one pays for that.
  double bandwidth(const LinkCost& link_cost, double size, double window) const {
    return std::max(moved * size, chain * std::min(size, window)) * link_cost.beta;
  }
  void pay(const LinkCost& link_cost, double size, double window, Predicted& all) const {
    all.latency += latency(link_cost);
    all.bandwidth += bandwidth(link_cost, size, window);
  }
};

/// Of a call on GPUs, the share whose bytes go through one link after the other: the first windows of each replica.
double share_in_turn(double size, double window, uint32_t replicas) {
  constexpr double kWindows = 3;
  return replicas == 1 || size <= 0 ? 1 : std::min(1.0, kWindows * window * replicas / size);
}

/// The link cost of ranks that share a core. The processor time of a message counts fully: on a core of its own, a rank
/// would spend it while it waits.
LinkCost oversubscribed(LinkCost link_cost, double oversubscription, double context_switch) {
  if (oversubscription <= 1) return link_cost;
  link_cost.alpha += (oversubscription - 1) * context_switch;
  link_cost.beta *= oversubscription;
  link_cost.message = std::max(link_cost.message * oversubscription, machine_constants().oversubscribed_message);
  return link_cost;
}

/// Messages that a rank sends or receives, whichever is more.
int64_t messages_of(const plan::Cost& cost) {
  if (cost.message == plan::Ratio(0)) return cost.stages;
  return std::max(cost.stages, static_cast<int64_t>(std::ceil(cost.received.value() / cost.message.value() - 1e-9)));
}

}  // namespace

exec::Prices prices_of(const CostInputs& inputs) {
  return {.inside = inputs.inside,
          .between = inputs.between,
          .gamma = inputs.gamma,
          .context_switch = inputs.context_switch > 0 ? inputs.context_switch : machine_constants().context_switch,
          .oversubscription = inputs.oversubscription,
          .two_levels = inputs.groups != nullptr && inputs.groups->has_two_levels()};
}

Predicted predict(const plan::Cost& cost, uint64_t bytes, uint64_t of_window, const exec::Prices& s,
                  uint32_t replicas) {
  const auto size = static_cast<double>(bytes), window = static_cast<double>(of_window);
  const auto chain_of = [&](int64_t rounds) { return static_cast<double>(rounds) * cost.message.value(); };
  const LinkCost inside = oversubscribed(s.inside, s.oversubscription, s.context_switch);
  // Between caches of a host cores do the work, between hosts the network.
  const LinkCost outside =
      s.between.in_place ? oversubscribed(s.between, s.oversubscription, s.context_switch) : s.between;
  // Each set of peers gets a message once. Algorithms that send to the same peers again (rings) receive as much as they
  // send.
  const double published = static_cast<double>(cost.stages) * cost.message.value();
  const double sent = inside.in_place ? std::min(cost.sent.value(), published) : cost.sent.value();
  // α includes the processor time of each round's first message.
  Part all{.rounds = cost.rounds,
           .moved = std::max(sent, cost.received.value()),
           .chain = cost.chain == plan::Ratio(0) ? chain_of(cost.rounds) : cost.chain.value(),
           .stages = std::max<int64_t>(0, messages_of(cost) - cost.rounds)};
  Predicted predicted{.latency = s.call, .reduction = cost.folded.value() * size * s.gamma * s.oversubscription};
  if (!s.two_levels || !cost.between) {
    all.pay(s.two_levels ? outside : inside, size, window, predicted);
    if (s.overlaps && !s.two_levels && !(cost.handled == plan::Ratio(0))) {
      predicted.bandwidth = std::min(predicted.bandwidth, cost.handled.value() * size * inside.beta / 2);
    }
    return predicted;
  }
  const Part between{.rounds = cost.between->rounds,
                     .moved = cost.between->moved.value(),
                     .chain = cost.between->chain.value(),
                     .stages = std::min(all.stages, std::max<int64_t>(0, cost.between->stages - cost.between->rounds))};
  all.rounds -= between.rounds;
  all.moved = std::max(0.0, all.moved - between.moved);
  all.chain = cost.chain == plan::Ratio(0) ? chain_of(all.rounds) : std::max(0.0, all.chain - between.chain);
  all.stages -= between.stages;
  predicted.latency += all.latency(inside) + between.latency(outside);
  const double near = all.bandwidth(inside, size, window), far = between.bandwidth(outside, size, window);
  predicted.bandwidth = std::max(near, far) + std::min(near, far) * share_in_turn(size, window, replicas);
  return predicted;
}

Predicted predict(const Traffic& traffic, const plan::Cost& cost, uint64_t bytes, uint64_t of_window,
                  const exec::Prices& s, uint32_t replicas) {
  const auto size = static_cast<double>(bytes), window = static_cast<double>(of_window);
  const double in_turn = std::max(0.0, traffic.in_turn - traffic.busiest) * share_in_turn(size, window, replicas);
  const double switches = (s.oversubscription - 1) * s.context_switch;
  return {.latency = s.call + traffic.latency + static_cast<double>(cost.rounds) * switches,
          .bandwidth =
              std::max((traffic.busiest + in_turn) * size * s.oversubscription, traffic.fill * std::min(size, window)),
          .reduction = cost.folded.value() * size * s.gamma * s.oversubscription};
}

}  // namespace tutti::select
