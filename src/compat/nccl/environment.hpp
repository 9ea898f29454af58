// NCCL's environment variables.
#pragma once

#include "nccl.h"

namespace tutti::nccl {

/// The first call passes on to Tutti what the NCCL_ variables ask for, and logs those that have no meaning here.
void read_environment();

/// Does ncclCommRegister register? Not with NCCL_LOCAL_REGISTER=0.
bool local_registration();

/// NCCL_COMM_ID is set: rank 0 serves the id at that address.
bool serves_id();
/// What ncclGetUniqueId returns then, on any rank: a mark that says to ask rank 0.
ncclUniqueId served_id();
bool is_served_id(const ncclUniqueId& id);
/// Rank 0 makes an id and gives it to the others, which ask for it. Throws Refusal.
ncclUniqueId exchange_served_id(int ranks, int rank);

}  // namespace tutti::nccl
