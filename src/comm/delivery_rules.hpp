// From how many bytes on each kind of delivery is the fastest, by collective: rules from measurements. The decision
// for each message follows them in exec/compile/delivery.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/call.hpp"
#include "exec/compile/delivery.hpp"
#include "exec/executor.hpp"
#include "plan/algorithm.hpp"
#include "select/calibration.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// What the ranks have agreed on. The length of messages depends only on this and on the call.
struct AgreedCapabilities {
  uint64_t staging = 0;          ///< bytes, the smallest staging memory of any rank
  uint64_t message = 256 << 10;  ///< bytes, the longest message that is not read in its sender's memory
  transports::ReadAccess reading =
      transports::ReadAccess::None;  ///< the weakest access of any rank to another's zero-copy data
  bool oversubscribed = false;       ///< some ranks share their cores
  bool always_cma = false;           ///< TUTTI_CMA is "always"
  select::LengthShifts shifts;       ///< how the table's lengths are scaled: rank 0's
  uint32_t threads = 1;              ///< that run a wide program on each rank
  bool shares_staging = true;        ///< the replicas of a wide program share the staging memory
  // Of a device.
  std::vector<const plan::Algorithm*> copied;  ///< the copy engines run the collectives of these, …
  uint64_t copied_round = 0;                   ///< … so many bytes to all readers in a round
  const plan::Algorithm* switched = nullptr;   ///< the switch between devices folds this one's calls; null: none …
  uint64_t switched_window = 0;                ///< … of which a block moves so many bytes in a round, at most …
  std::function<bool(const exec::Reduction& how)> folds_in_switch;  ///< … where this is true
};

/// Of a collective. Equal on all ranks; but `cooperative_from`, which is this host's, is left to the caller.
exec::DeliveryRules delivery_rules_for(const CallSpec& spec, Rank ranks, const AgreedCapabilities& agreed);
/// Of transfers and vector calls, whose blocks only their two ends know.
exec::DeliveryRules delivery_rules_for_transfers(const AgreedCapabilities& agreed);

/// Bytes from which a thread reads another thread's message in place. (For memory that peers map, the table's own
/// lengths hold, unscaled: there it matters more that its cache lines lie elsewhere than those of staging memory.)
uint64_t zcopy_from(const AgreedCapabilities& agreed);
/// Bytes from which both ends of a message copy, where every rank has a core of its own.
uint64_t cooperative_from(const AgreedCapabilities& agreed);

/// True if results are stored past the cache: if the call touches more than stays in the cache anyway. `near`: ranks of
/// this call on this host.
bool is_nontemporal(const CallSpec& spec, Rank ranks, Rank near, bool in_place);

}  // namespace tutti::comm
