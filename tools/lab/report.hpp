// What `tutti lab` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lab/options.hpp"

namespace tutti::tools {

/// "29.3 GB", "1.24 s", "27.3 %": three digits.
std::string value_text(double value, std::string_view unit);

/// The table, at most 100 columns wide. `all`: every row.
std::string lab_table(const LabScenario& lab, const train::planner::Outcome& outcome, bool all);

/// The same and every intermediate value, each with formula and source.
nlohmann::ordered_json lab_json(const LabScenario& lab, const train::planner::Outcome& outcome);

/// Why nothing fits, by how much, and what would help.
std::string shortage(const LabScenario& lab, const train::planner::Fixed& fixed,
                     const train::planner::Candidate& smallest);

}  // namespace tutti::tools
