// What this process may use of the machine: memory, cores and tasks, as its control groups (version 1 or 2) leave them.
// `root` stands before /proc and /sys, for tests. What cannot be read does not limit.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// Bytes that this process could still use: what the machine has free, or less where a control group above it is nearer
/// to its limit; reclaimable file cache counts as free. The kernel promises shared memory far beyond what there is, and
/// kills processes when it is then used; so whoever wants much asks here first.
uint64_t available_memory(const std::string& root = "");

/// Processes and threads that the control groups above this process still allow; the largest number where none limits
/// them.
uint64_t tasks_left(const std::string& root = "");

/// Cores' worth of time that this process may use; infinite where no group limits it.
double core_quota(const std::string& root = "");

}  // namespace tutti
