// What `tutti info` finds out about the machine and this process's share of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tutti::tools {

/// Host, kernel, processors, caches, memory. The order is that in which people read it.
nlohmann::ordered_json machine_facts();

/// Processors and processor time that this process may use.
nlohmann::ordered_json share_facts();

/// Processors' worth of time that control groups (version 1 or 2) leave this process; nothing where none limits it.
/// `root` stands before /proc and /sys, for tests.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace tutti::tools
