// Direct stores: a rank that computes a fold for a peer stores the result in the peer's output buffer, if it can reach
// that memory (link/cooperative_copy.hpp). Nothing is left to copy when the peer gets the message.
//
// The reader offers the destination when it enters a round, so the store may come earlier than its plan says. That is
// safe if nothing else in its round reads or writes those bytes. In place, messages of exactly these bytes to the same
// peer are allowed too: the peer reads them before it stores. The offer says how many messages must have arrived at the
// peer first, and the peer counts them.
#pragma once

#include "exec/compile/link_table.hpp"

namespace tutti::exec {

/// Marks the instructions that may offer a destination, and those that may use such an offer. For in-place calls, input
/// and output must begin at the same address.
void mark_direct_stores(WindowProgram& program, const Geometry& geometry, LinkTable& links);

/// Marks the instructions for cooperative copies: those that copy one long message unchanged to one destination, in a
/// program that sends nothing. When both ends send, both are busy, and cooperation costs more than it gains.
void mark_cooperative(WindowProgram& program, LinkTable& links, const DeliveryRules& rules);

/// Marks the instructions whose message an engine may receive at its destination.
void mark_landing(WindowProgram& program);

/// Marks the instructions that may receive zero-copy messages, which their writers may revoke (link/revoke.hpp).
void mark_zero_copy_arrivals(WindowProgram& program, LinkTable& links, const DeliveryRules& rules);

}  // namespace tutti::exec
