// Why the ranks of a communicator exchange bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/rank.hpp"

namespace tutti::control {

/// The call that an exchange is part of. Contributions as part of different calls are a mismatch.
struct ExchangePurpose {
  uint64_t call = 0;  ///< its number; 0: the communicator is being created
  std::string what = "the communicator's creation";
  /// Called from time to time on the waiting thread, with the ranks that have not contributed or are in another call.
  /// `compare` is set on one rank, which compares its calls with theirs and fails the communicator if they differ.
  std::function<void(const std::vector<Rank>& missing, bool compare)> on_missing;
};

}  // namespace tutti::control
