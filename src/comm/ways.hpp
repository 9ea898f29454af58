// How a call's bytes best travel between ranks that reach each other's memory: what was measured, as rules.
#pragma once

#include <cstdint>

#include "comm/call.hpp"
#include "transports/link.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// What the ranks have agreed on: how long messages are depends on nothing else, and on the call.
struct Terms {
  uint64_t staging = 0;                                     ///< bytes, the smallest staging memory of any rank
  transports::Reading reading = transports::Reading::None;  ///< how each reads what any other lends, at the least
  bool crowded = false;                                     ///< some rank shares its cores
  bool always_pull = false;                                 ///< all are told to, by TUTTI_CMA
};

/// Only `pull`, in which all ranks come out alike, has a part in how long messages are.
struct Ways {
  bool pull = false;                             ///< blocks are read through the kernel, where links can
  bool share = false;                            ///< buffers that are shared memory are read and written where they are
  uint64_t place_from = transports::kNeverLend;  ///< bytes from which on ranks fold straight into others' results
  bool stream = false;                           ///< results are stored past the cache
};

/// `near`: ranks on this host.
Ways ways_of(const CallSpec& spec, Rank ranks, Rank near, const Terms& terms, bool in_place);

}  // namespace tutti::comm
