// An order of ranks in which neighbours are near each other on a topology.
#pragma once

#include "plan/order.hpp"
#include "select/pairs.hpp"

namespace tutti::select {

/// The communicator's order; or one in which the ranks of a host, and on it those of a package, a NUMA node, a core
/// complex or a PCIe switch, follow each other, and hosts with fast links between them too: a ring then crosses each
/// slow link once in each direction. That one is taken only if it is better by 2 % at least (order_cost).
plan::RankOrder find_order(const Pairs& pairs);

/// How good an order is, in seconds, of messages of 64 KiB: for how long they keep the busiest link when each rank
/// sends one to the next (a ring); and the rank of a chain that takes the longest for its neighbours, where a slow one
/// had better be the last; and what a message takes on the average, so that fewer slow links are better.
double order_cost(const Pairs& pairs, const std::vector<Rank>& order);

}  // namespace tutti::select
