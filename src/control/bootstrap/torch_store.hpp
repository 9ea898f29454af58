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

  bool operator==(const StoreAddress&) const = default;
};

/// The value of `name` in the store: 64 random hexadecimal digits, set by the first rank that asks. Tries until the
/// deadline, since the store may open late. Throws Error(Timeout) with the reason.
std::string secret_from_store(const StoreAddress& store, const std::string& name, Deadline deadline);

}  // namespace tutti::control
