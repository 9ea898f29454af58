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

/// The number of the round in which this process joins, where a store is used by one group after another: all
/// `ranks` ranks of a round get the same.
int64_t round_of(c10d::Store& store, const std::string& key, int ranks);

/// Waits for the communicator's last calls and leaves. Throws what tuttiCommDestroy reports.
void leave(tuttiComm_t comm);

}  // namespace tutti_torch
