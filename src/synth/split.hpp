// Removes the switches of a network: what is left are arcs from rank to rank, over which as many trees still fit.
//
// Words. Capacities count *trees*: how many of the trees that are to be packed may pass an arc. The *demand* is how
// many trees start at each rank. A network *supports* a demand if trees of that number exist, each of which reaches all
// ranks: that is so if and only if from a source, with an arc to each rank of the capacity of its demand, all of it can
// flow to any rank (Edmonds; with switches: Bang-Jensen, Frank & Jackson).
//
// Two arcs (u, w) and (w, t) of a switch w are *split off*: an arc (u, t) takes some of their capacity. What passes the
// switch from u to t then goes directly; other ways through the switch have less left. In a balanced network there
// always is a way to split off everything so that the demand stays supported. How much of a pair can be split off
// follows from the cuts that become smaller:
// - those with u and t inside and w outside lose the arc (u, w);
// - those with w inside and u and t outside lose the arc (w, t).
// So the *slack* of a pair is the smallest such cut that keeps some rank outside, less the demand: a minimum cut where
// u and t (or w) are tied to the source and w (or u and t) to that rank.
//
// Exact splitting takes a flow for each pair of arcs and each rank. So *patterns* are tried first: all ports of a
// switch are joined in a regular way at once, and one test at the end says if the demand is still supported. Mostly it
// is.
//
// Source: ForestColl, arXiv 2402.06787, §5.2; Bang-Jensen, Frank & Jackson, Preserving and increasing local
// edge-connectivity in mixed graphs, SIAM J. Discrete Math. 1995.
#pragma once

#include <vector>

#include "synth/network.hpp"

namespace tutti::synth {

/// Trees that start at each rank.
using Demand = std::vector<int64_t>;

/// Can so many trees be packed?
bool supports(const Network& network, const Demand& demand);

/// How the ports of a switch are joined, unless that has to be found pair by pair.
enum class Pattern : uint8_t {
  Spread,    ///< each port to all others, in turn: the fewest hops
  Doubling,  ///< to those 1, 2, 4, … further: fewer arcs
  Ring,      ///< to the next one: the fewest arcs
  Exact,     ///< by slack
};

/// The network without its switches, which supports the demand if `network` does. `network` must be balanced.
/// `used`: the pattern of all switches, or the last one of this list that was needed. Pairs of arcs are split off in
/// another order in each `attempt`, if they are split off one by one.
Network without_switches(const Network& network, const Demand& demand, unsigned attempt = 0, Pattern* used = nullptr);

}  // namespace tutti::synth
