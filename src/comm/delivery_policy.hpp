// How a call's bytes are best delivered between ranks that can read each other's memory: rules from measurements.
#pragma once

#include <cstdint>

#include "comm/call.hpp"
#include "link/link.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// What the ranks have agreed on. The length of messages depends only on this and on the call.
struct AgreedCapabilities {
  uint64_t staging = 0;  ///< bytes, the smallest staging memory of any rank
  transports::ReadAccess reading =
      transports::ReadAccess::None;  ///< the weakest access of any rank to another's zero-copy data
  bool oversubscribed = false;       ///< some ranks share their cores
  bool always_cma = false;           ///< TUTTI_CMA is "always" on all ranks
};

/// Only `pull`, which is equal on all ranks, affects the length of messages.
struct DeliveryPolicy {
  bool pull = false;                          ///< blocks are read by CMA, over links that can
  bool share = false;                         ///< buffers in shared memory are read and written in place
  uint64_t direct_store_from = link::kNever;  ///< bytes from which ranks store results directly in peers' buffers
  bool nontemporal = false;                   ///< results are stored past the cache
};

/// `near`: ranks of this call on this host.
DeliveryPolicy delivery_policy_for(const CallSpec& spec, Rank ranks, Rank near, const AgreedCapabilities& agreed,
                                   bool in_place);

}  // namespace tutti::comm
