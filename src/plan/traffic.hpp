// What the plans of all ranks send to each other in one round of windows, and the longest chain of messages that wait
// for each other. Amounts are in units of the call's count.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan {

/// The messages from one rank to another, all lanes together.
struct Flow {
  Rank from = 0, to = 0;
  double amount = 0;
};
/// By sender, then receiver.
std::vector<Flow> flows_of(std::span<const RankPlan> plans);

/// What a rank publishes: a message to several readers counts once.
double published_by(const RankPlan& plan);

/// The cost of a message, from the time at which its sender begins to send it.
struct MessageCost {
  double arrives = 0;  ///< until the receiver has it
  double busy = 0;     ///< until its sender can go on; and what each further message of several takes their receiver
};
/// The cost of the longest chain of messages, each of which waits for those before it: as if nothing else took time.
/// Plans that verify() rejects may give any figure.
double longest_chain(std::span<const RankPlan> plans,
                     const std::function<MessageCost(Rank from, Rank to, double amount)>& cost);

}  // namespace tutti::plan
