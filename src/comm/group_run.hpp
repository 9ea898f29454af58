// Runs the calls of a group, on all its communicators at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.hpp"
#include "comm/communicator.hpp"

namespace tutti::comm {

/// The calls of a group on one communicator, in order: works[i] has tickets[i].
struct CommunicatorCalls {
  std::shared_ptr<Communicator> comm;
  std::vector<std::vector<Call>> works;
  std::vector<uint64_t> tickets;
};

/// The calls of a group on one communicator run in order, and concurrently with those on others. So one thread can
/// drive several ranks, and communicators impose no order on each other. Returns the first error.
Status run_communicators(std::vector<CommunicatorCalls>& per_communicator);

}  // namespace tutti::comm
