// How a call's bytes best travel between ranks that reach each other's memory: what was measured, as rules.
#pragma once

#include <cstdint>

#include "comm/call.hpp"
#include "link/link.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// What the ranks have agreed on: how long messages are depends on nothing else, and on the call.
struct AgreedCapabilities {
  uint64_t staging = 0;                                           ///< bytes, the smallest staging memory of any rank
  transports::ReadAccess reading = transports::ReadAccess::None;  ///< how each reads what any other lends, at the least
  bool oversubscribed = false;                                    ///< some rank shares its cores
  bool always_pull = false;                                       ///< all are told to, by TUTTI_CMA
};

/// Only `pull`, in which all ranks come out alike, has a part in how long messages are.
struct DeliveryPolicy {
  bool pull = false;                          ///< blocks are read through the kernel, where links can
  bool share = false;                         ///< buffers that are shared memory are read and written where they are
  uint64_t direct_store_from = link::kNever;  ///< bytes from which on ranks fold straight into others' results
  bool nontemporal = false;                   ///< results are stored past the cache
};

/// `near`: ranks on this host.
DeliveryPolicy delivery_policy_for(const CallSpec& spec, Rank ranks, Rank near, const AgreedCapabilities& agreed,
                                   bool in_place);

}  // namespace tutti::comm
