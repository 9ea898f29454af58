// What an exchange between the ranks of a communicator is for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/rank.hpp"

namespace tutti::control {

/// The call that an exchange is part of. Ranks that give to it as part of different calls are a mismatch.
struct ExchangePurpose {
  uint64_t call = 0;  ///< its number; 0: the communicator is being created
  std::string what = "the communicator's creation";
  /// Called now and then, on the thread that waits, with ranks that have not given or are in another call; on one rank
  /// to `compare` its calls with theirs. Whatever is wrong with them it tells by failing the communicator.
  std::function<void(const std::vector<Rank>& missing, bool compare)> look;
};

}  // namespace tutti::control
