// What a job's trace says, as text and as JSON.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/trace/clocks.hpp"
#include "tools/trace/late.hpp"

namespace tutti::tools {

/// `processes`: with times of one clock, as shift() makes them; `clocks`: how their hosts' clocks were brought
/// together.
std::string trace_text(const std::vector<ProcessCalls>& processes, const std::map<std::string, HostClock>& clocks);
nlohmann::ordered_json trace_json(const std::vector<ProcessCalls>& processes,
                                  const std::map<std::string, HostClock>& clocks);

}  // namespace tutti::tools
