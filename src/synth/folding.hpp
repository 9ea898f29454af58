// The least time of an all-reduce where switches fold and multicast (Network::folding; NVLink SHARP).
//
// All other collectives keep the bound of synth/bound.hpp, whatever switches do. It counts what must enter or leave a
// side in any case: of an all-gather or a broadcast, each block that ranks of the side have and some rank outside
// needs, once, however many need it; of a reduce-scatter or a reduce, each sum that a rank of the side needs and ranks
// outside contribute to, once, already folded. Multicast saves what a rank sends, and folding what it receives; neither
// saves what crosses the tightest cut. Nor does it of an all-reduce that crosses one cut: the buffer must, once.
//
// All-reduce between p parts is another matter: synth/bound.hpp has a rank in each part, which alone folds.
//
// Words. An *agent* is what can fold what it receives and send it to several: a rank, or a switch that folds. Other
// switches forward a message from agent to agent. What passes a folding switch unchanged counts as two messages.
//
// Lemma. Split all agents into p parts, each with a rank. Then each element of the buffer is sent from part to part
// 2(p − 1) times at least. For the ranks of a part need what the ranks of each other part have. Count sends of the
// element, or of folds of it, from part to part, in order of time; what happens within a part is free. A part *knows
// all* when something of each part has reached it. Before the first part knows all, something of the p − 1 others has
// reached it: their sends join p parts to one tree at least, so they are p − 1 at least. A send lets one part know all
// at most: the one that receives it. So each of the other p − 1 parts still receives one. (One-way gossip: Harary &
// Schwenk, 1974.) That a part may hold a switch beside its ranks changes nothing in this.
//
// Each of these sends leaves a part, over links that lead out of it, so over the minimum cut that has the part's agents
// on its side, and no others: T ≥ 2(p − 1)·S / (sum of these cuts). A folding switch is in one of the parts, also one
// that no rank is on: in none, it would be taken for one that forwards. No part is of switches alone: it would need
// nothing.
//
// One NVSwitch with n GPUs, each joined by B: {GPU | others and switch} gives S/B, where ranks alone that fold take
// 2(n − 1)/n of that. A switch reaches it: all send it the buffer, and it sends all the sum. So does one that has no
// memory, as NVLink SHARP's, which returns a fold to the GPU that asks for it, if that GPU leaves its own operand out:
// n − 1 operands go up, and their fold down to the GPU that asked; the sum up from there, and down to n − 1. If each
// GPU asks for a part of 1/n, its link carries S each way. But one multicast address stands for all GPUs here
// (exec/compile/multimem_steps.hpp), so the operand and the sum of the GPU that asks travel too: (n + 1)/n · S. At most
// n/(n + 1) of this bound is what the method nvls can reach, with links that are fully used.
//
// Tried are minimum cuts between two ranks, and splits: all of them up to kAllSplits agents; beyond, single ranks,
// hosts, islands of a folding switch, and of each host single ranks, beside the other hosts or all of their ranks.
// Where a switch's ranks are not all of one part, it is in that of the rank with the widest link to it.
//
// What the network's own switches fold (SHARP of InfiniBand) no topology file tells, and no transport uses.
#pragma once

#include "synth/bound.hpp"

namespace tutti::synth {

inline constexpr size_t kAllSplits = 10;  ///< up to so many agents, all splits are tried

/// Of all-reduce. Without a switch that folds it is a bound too, but no better than bound_of(). `all_splits`: in place
/// of kAllSplits, for tests. Throws Error(InvalidArgument) as tightest_cut() does.
Bound folding_bound_of(const Network& network, size_t all_splits = kAllSplits);

}  // namespace tutti::synth
