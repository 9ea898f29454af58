// Placing: a rank that folds what another one wants stores the result there at once, where it can reach that memory,
// instead of leaving it to be read (link/cooperative_copy.hpp). The message that announces it has nothing left to be
// copied.
//
// The reader offers the place when it enters a round, so what is written there comes earlier than its plan says. That
// is safe where nothing else of its round reads or writes those bytes; or, in place, where nothing does but messages of
// just these bytes to that same peer, who reads them and then writes: the offer says how many messages the peer must
// have had by then, and the peer counts.
#pragma once

#include "exec/compile/lower.hpp"

namespace tutti::exec {

/// Marks the operations of a program that may offer a place, and those that may take up such an offer. In place, input
/// and output must begin at the same address.
void mark_direct_stores(Program& program, const Geometry& geometry, Links& links);

/// Marks the operations whose writers may help: those with one long message that goes straight, as it is, to one place;
/// in a program that sends nothing. Where both ends send, both are busy, and sharing costs more than it gains.
void mark_cooperative(Program& program);

/// Marks the operations whose messages their writers may lend, and may take back (link/revoke.hpp).
void mark_zcopy(Program& program, Links& links);

}  // namespace tutti::exec
