// The ranks of one communicator, as threads or processes of their own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/rank.hpp"

namespace tutti::conformance {

/// Under what conditions a list of cases runs.
struct Setting {
  std::string name;  ///< for people
  int ranks = 1;
  int processes = 1;                                             ///< that share the ranks out evenly
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables of Tutti
  double seconds = 120;                                          ///< after which it counts as hung
  bool sums = false;                                             ///< run_sums instead of cases
  bool mapped = false;                                           ///< buffers are tuttiMemAlloc's
};

/// What all ranks found, and what became of their processes (added to the first rank's findings).
std::vector<Findings> run(const Setting& setting, const std::vector<Case>& cases);

}  // namespace tutti::conformance
