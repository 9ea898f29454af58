// The ranks that run in this process, and the facts that they exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::tools {

/// Joins all ranks of the launch, `threads` of them in this process, and calls `body` for each on a thread of its own.
/// Without a launcher the ranks are those threads. If one fails, its communicator is aborted so that the others end
/// soon; errors are printed on stderr, after `speaker`. True if none failed.
/// `prepare`, if set, is called by each rank's thread before it joins, with the rank's number on this host.
bool run_ranks(const char* speaker, int threads, const std::function<void(Communicator&)>& body,
               const std::function<void(int local_rank)>& prepare = {});

/// Where a rank runs.
struct RankPlace {
  char host[64];
  char bound_to[60];  ///< processors, e.g. "0-1"
  uint64_t memory;    ///< available bytes
  int32_t pid;
  int32_t cpu;  ///< it last ran on
};

/// The facts of every rank, by rank. All ranks call it.
std::vector<RankPlace> gather_places(Communicator& comm);

}  // namespace tutti::tools
