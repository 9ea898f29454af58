// An order of ranks in which neighbours are near each other on a topology.
#pragma once

#include <memory>

#include "plan/algorithm.hpp"
#include "plan/order.hpp"
#include "select/machine_view.hpp"
#include "select/pairs.hpp"

namespace tutti::select {

/// The communicator's order; or one in which the ranks of a host, and on it those of a package, a NUMA node, a core
/// complex or a PCIe switch, follow each other, and hosts with fast links between them too: a ring then crosses each
/// slow link once in each direction. That one is taken only if it is better by 2 % at least (order_cost).
plan::RankOrder find_order(const Pairs& pairs);

/// The best order known for one algorithm, which is not a ring's: `known`, the communicator's own, or one that follows
/// from these by swaps of two ranks (up to 16 ranks), by what its messages of 64 KiB take on these links. `known` is
/// left for one that is better by 2 % at least.
plan::RankOrder order_for(const plan::Algorithm& algorithm, const MachineView& view,
                          const std::shared_ptr<const plan::Grouping>& groups, const plan::RankOrder& known,
                          Rank ranks);

/// How good an order is, in seconds, of messages of 64 KiB: for how long they keep the busiest link when each rank
/// sends one to the next (a ring); and the rank of a chain that takes the longest for its neighbours, where a slow one
/// had better be the last; and what a message takes on the average, so that fewer slow links are better.
double order_cost(const Pairs& pairs, const std::vector<Rank>& order);

}  // namespace tutti::select
