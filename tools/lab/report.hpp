// What `tutti lab` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lab/options.hpp"

namespace tutti::tools {

/// "29.3 GB", "1.24 s", "27.3 %": three digits.
std::string value_text(double value, std::string_view unit);

/// A figure with its formula: a line, or two.
std::string figure_line(const train::planner::Figure& figure);

/// A published run, its layout and its figures, with the published share beside the predicted one; "all": a Markdown
/// table of all runs. Throws Error(InvalidArgument) for an unknown name.
std::string published_text(const std::string& name);

/// The largest model whose states fit in the memory of these GPUs, by ZeRO stage.
std::string largest_text(const train::planner::Cluster& cluster);

/// Days, cost, failures and checkpoints of the run.
std::string run_text(const LabScenario& lab, const train::planner::Candidate& best);
nlohmann::ordered_json run_json(const LabScenario& lab, const train::planner::Candidate& best);

/// The table, at most 100 columns wide. `all`: every row.
std::string lab_table(const LabScenario& lab, const train::planner::Outcome& outcome, bool all);

/// The same and every intermediate value, each with formula and source.
nlohmann::ordered_json lab_json(const LabScenario& lab, const train::planner::Outcome& outcome);

/// Why nothing fits, by how much, and what would help.
std::string shortage(const LabScenario& lab, const train::planner::Fixed& fixed,
                     const train::planner::Candidate& smallest);

}  // namespace tutti::tools
