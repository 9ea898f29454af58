// The machine, and this process's share of it, for `tutti info`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tutti::tools {

/// Host, kernel, processors, caches, memory, in display order.
nlohmann::ordered_json machine_facts();

/// Processors and processor time that this process may use.
nlohmann::ordered_json share_facts();

/// Processors' worth of time that control groups (version 1 or 2) allow this process; empty if there is no limit.
/// `root` is prepended to /proc and /sys, for tests.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace tutti::tools
