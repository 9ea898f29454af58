// A job's status as text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

/// "0-2, 5".
std::string ranges(std::vector<int64_t> ranks);

/// `page`: what a process answers (control/status/job_status.hpp). Ranks that do the same are one line; those that are
/// behind come first. Throws nlohmann::json::exception if it is no such page.
std::string status_text(const nlohmann::json& page);

}  // namespace tutti::tools
