// Communicators made through a store: rank 0's unique id travels in it.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

#include "tutti/tutti.h"

namespace tutti_torch {

/// What a new communicator is.
struct Joining {
  std::string key;   ///< in the store
  std::string name;  ///< in messages
  int rank, ranks;
  std::chrono::milliseconds timeout;
  /// Asked while it waits; throws to end the waiting. It may be empty.
  std::function<void()> check = {};
};

/// Returns when all ranks have joined; throws after `timeout` with the ranks that are missing. Rank 0 makes the id.
tuttiComm_t join(c10d::Store& store, const Joining& joining);

struct Joined {
  tuttiComm_t comm;
  std::string token;  ///< the same on all ranks, and never one of another communicator
};

/// As `join`, where `store` may hold what others have left under the same keys: groups of this name that ended, and
/// those of processes that a launcher has killed at any point and started anew, perhaps with another number of ranks.
/// So a rank does not trust the id that it finds: it asks for an answer, which only a rank 0 that waits there now can
/// give. If none comes, it waits until another id stands there.
Joined join_group(c10d::Store& store, const Joining& joining);

/// Waits for the communicator's last calls and leaves. Throws what tuttiCommDestroy reports.
void leave(tuttiComm_t comm);

}  // namespace tutti_torch
