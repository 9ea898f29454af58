// Plans for small calls on a machine: a handful, chosen by what messages cost between its ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "select/inputs.hpp"
#include "synth/small.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

inline constexpr Rank kMaxSmallRanks = 64;  ///< of more, choosing takes long

/// What messages between ranks on these nodes take.
class MessageCosts {
 public:
  /// α and β of pairs as the selector has them. Of `inputs` is the share of α that keeps a sender busy, and what the
  /// cheapest method adds to each round. None: some rank cannot reach another, or there are too many.
  static std::optional<MessageCosts> of(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                        const CostInputs& inputs);

  Rank ranks() const { return ranks_; }
  /// Between plans' ranks on an order.
  MessageCosts on(const plan::RankOrder& order) const;
  /// Of the links alone, for bounds; and with what a round costs, for plans.
  synth::Postal of_links() const { return {ranks_, alpha_, share_}; }
  synth::Postal postal() const;
  /// Seconds of a call with blocks of so many bytes: its longest chain of messages, if they share no links.
  double seconds(const std::vector<plan::RankPlan>& plans, uint64_t block) const;

 private:
  Rank ranks_ = 0;
  std::vector<double> alpha_, beta_;  // by sender and receiver
  double share_ = 0, round_ = 0;
};

/// The fastest of synth::small_plans() at some size of a block up to 1 MiB, kMaxKept at most; those that win more sizes
/// come first.
std::vector<synth::SmallPlan> best_small_plans(Collective collective, const MessageCosts& costs);

}  // namespace tutti::select
