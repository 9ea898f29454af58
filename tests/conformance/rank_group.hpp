// The ranks of one communicator, as threads or processes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/rank.hpp"

namespace tutti::conformance {

/// The conditions under which a list of cases runs.
struct Conditions {
  std::string name;  ///< for the report
  int ranks = 1;
  int processes = 1;                                             ///< among which the ranks are divided evenly
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables of Tutti
  double seconds = 120;                                          ///< after which the run counts as hung
  bool sums = false;                                             ///< run_sums instead of cases
  bool mapped = false;                                           ///< buffers are tuttiMemAlloc's
};

/// The findings of all ranks, and how their processes ended (added to the first rank's findings).
std::vector<Findings> run(const Conditions& conditions, const std::vector<Case>& cases);

}  // namespace tutti::conformance
