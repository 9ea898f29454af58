// torchrun's store: a key-value server (torch.distributed's TCPStore) that torchrun, or rank 0, runs at
// MASTER_ADDR:MASTER_PORT. The ranks of a launch agree there on a random key.
//
// The store authenticates nobody: anyone who can connect to it can read the key. So the key protects against those who
// know the job's names and numbers, not against those who can reach its store; the latter can harm the torch job too.
#pragma once

#include <cstdint>
#include <string>

#include "base/deadline.hpp"

namespace tutti::control {

struct StoreAddress {
  std::string host;
  uint16_t port = 0;
  bool opened_before = false;  ///< the launcher has opened it before it started any rank

  bool operator==(const StoreAddress&) const = default;
};

/// For how many seconds a store may be missing.
struct StoreWaitLimits {
  double warn_after = 2;
  double refused = 3;  ///< by a store that was opened before
};

/// The value of `name` in the store: 64 random hexadecimal digits, set by the first rank that asks. A store that rank 0
/// runs may open late, or never: it is tried until the deadline, and a warning says so. Where the launcher has opened
/// it before, it is gone if it only refuses. Throws Error(Timeout | PeerFailed) with the reason.
std::string secret_from_store(const StoreAddress& store, const std::string& name, Deadline deadline,
                              const StoreWaitLimits& limits = {});

}  // namespace tutti::control
