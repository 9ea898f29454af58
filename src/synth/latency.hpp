// How fast an empty call can be, and the tree that is as fast: small calls.
//
// Words. The *postal model* (Bar-Noy & Kipnis): a message from one rank to another arrives a *latency* after its sender
// began to send it, and its sender may begin the next one a *gap* later (LogP's L + 2o, and its g or o: Karp, Sahay,
// Santos, Schauser). So a rank that has something to tell tells one rank after the other, and those that know tell
// others meanwhile. In a *tree* each rank is told once, by its parent.
//
// If all pairs are alike, the fastest tree is known: of n(t) ranks that know at time t,
//   n(t) = n(t − gap) + n(t − latency),    n(t) = 1 for 0 ≤ t < latency
// (generalised Fibonacci numbers): the binomial tree if the gap is the latency, a star if it is 0. Where pairs differ,
// finding it is NP-hard; a greedy tree is improved step by step. Up to kExactRanks all trees are tried.
//
// The bound is the largest of
// - the farthest rank's way, over any others;
// - the formula above with the least latency and gap of any pair;
// - the same between *clusters*: ranks nearer to each other than some latency L are one. Only messages of at least L
//   join clusters, and all ranks of a cluster may send at the same time, once its first one knows.
// Every collective but all-to-all, gather and scatter has some rank that must hear from all others, or tell all others,
// so the bound is also theirs. (Reduce: all messages turned round, with gaps between what a rank receives.)
//
// Source: Bar-Noy & Kipnis, Designing broadcasting algorithms in the postal model for message-passing systems, SPAA
// 1992; Karp, Sahay, Santos, Schauser, Optimal broadcast and summation in the LogP model, SPAA 1993; Bhat, Raghavendra,
// Prasanna, Efficient collective communication in distributed heterogeneous systems, ICDCS 1999 (the greedy tree).
#pragma once

#include <cstddef>
#include <vector>

#include "base/rank.hpp"

namespace tutti::synth {

inline constexpr Rank kExactRanks = 6;        ///< up to so many, all trees are tried
inline constexpr Rank kMaxPostalRanks = 128;  ///< of more, improving a tree takes long

/// What messages between ranks take, in seconds; alike in both directions.
class Postal {
 public:
  /// All pairs alike.
  Postal(Rank ranks, double latency, double gap);
  /// `latency`: by sender and receiver. A gap is `gap`, and `share` of the message's latency.
  Postal(Rank ranks, std::vector<double> latency, double share, double gap = 0);

  Rank ranks() const { return ranks_; }
  double latency(Rank from, Rank to) const { return latency_[at(from, to)]; }
  double gap(Rank from, Rank to) const { return gap_ + share_ * latency(from, to); }

 private:
  size_t at(Rank from, Rank to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(ranks_) + static_cast<size_t>(to);
  }

  Rank ranks_;
  std::vector<double> latency_;
  double share_ = 0, gap_ = 0;
};

/// The time until `ranks` ranks know, if all pairs are alike.
double postal_time(Rank ranks, double latency, double gap);

/// No broadcast from `root` is faster.
double least_latency(const Postal& postal, Rank root);
/// No all-gather, reduce-scatter or all-reduce is: the largest of any root.
double least_latency(const Postal& postal);

/// Children in the order in which they are told.
struct LatencyTree {
  Rank root = 0;
  std::vector<Rank> parents;                ///< by rank; of the root: kNoRank
  std::vector<std::vector<Rank>> children;  ///< by rank
};

/// Until the last rank of the tree knows.
double time_of(const LatencyTree& tree, const Postal& postal);
/// The fastest tree that is found.
LatencyTree fastest_tree(const Postal& postal, Rank root);

}  // namespace tutti::synth
