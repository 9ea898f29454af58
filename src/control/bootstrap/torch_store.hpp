// torchrun's store: a key-value server (torch.distributed's TCPStore) that torchrun, or rank 0, keeps at
// MASTER_ADDR:MASTER_PORT. The ranks of a launch agree there on a random key.
//
// The store asks nobody who he is: whoever can connect to it can read the key. So the key protects from those who know
// the job's names and numbers, not from those who can reach its store; these can harm the torch job itself as well.
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

/// The value of `name` in the store, made at random by whichever rank asks first: 64 hexadecimal digits. Tries until
/// the deadline, since the store may open late. Throws Error(Timeout) saying why it could not be had.
std::string secret_from_store(const StoreAddress& store, const std::string& name, Deadline deadline);

}  // namespace tutti::control
