// From how many bytes on each kind of delivery is the fastest, by collective: rules from measurements, scaled by rank
// 0's calibration. They are part of a call's row; which message gets which delivery follows in
// exec/compile/delivery.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/compile/delivery.hpp"
#include "select/inputs.hpp"
#include "topo/constants.hpp"
#include "tutti/types.hpp"

namespace tutti::select {

/// Of a collective with blocks of so many bytes, in host memory.
exec::DeliveryRules deliveries_of(Collective collective, uint64_t block, Rank ranks, const HandOver& hand_over);
/// Of transfers and vector calls, whose blocks only their two ends know.
exec::DeliveryRules deliveries_of_transfers(const HandOver& hand_over);

/// The sizes of a block from which on deliveries_of() differs from those below, in no order.
std::vector<uint64_t> delivery_steps(Collective collective, Rank ranks, const HandOver& hand_over);

/// Bytes from which a thread reads another thread's message in place. (For memory that peers map, the table's own
/// lengths hold, unscaled: there it matters more that its cache lines lie elsewhere than those of staging memory.)
uint64_t zcopy_from(const HandOver& hand_over);

/// True if results are stored past the cache: if the call touches more than stays in the cache anyway. `near`: ranks of
/// this call on this host; `last_caches`: those of the last level that they use. Each rank decides this for its own
/// stores.
bool is_nontemporal(Collective collective, uint64_t block, Rank ranks, Rank near, bool in_place,
                    uint64_t last_caches = machine_constants().last_caches);

}  // namespace tutti::select
