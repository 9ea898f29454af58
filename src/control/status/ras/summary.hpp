// The report's tables: how many processes run where, and communicators that are alike.
#pragma once

#include <string>
#include <vector>

#include "control/status/ras/job.hpp"

namespace tutti::control::ras {

/// What is wrong with a communicator.
struct Verdict {
  State state = State::NoComm;
  bool incomplete = false;  ///< a process has not answered
  bool error = false;       ///< a rank reports one
  bool mismatch = false;    ///< ranks differ in state, or in how many calls they have made
};
Verdict verdict_of(const Communicator& communicator);

/// A communicator in the table: group `group`, number `index` in it.
struct Listed {
  const Communicator* of = nullptr;
  Verdict verdict;
  size_t group = 0, index = 0;
};
/// In the order of the table: the largest first, and of equals the worst.
std::vector<Listed> list_communicators(const Job& job);

/// Are `number` of `total` (0: of no known total) few enough to be named one by one?
bool is_itemised(size_t number, size_t total, bool verbose);

/// That have not answered, and are not known to be dead.
size_t silent_processes(const Job& job);

std::string process_table(const Job& job, bool verbose);
std::string communicator_table(const std::vector<Listed>& listed);

}  // namespace tutti::control::ras
