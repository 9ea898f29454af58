// This process's share of the machine: memory, cores and tasks, limited by its control groups (version 1 or 2). `root`
// is prepended to /proc and /sys, for tests. Unreadable files impose no limit.
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// Bytes that this process can still use: the machine's free memory, or less if a control group is closer to its limit.
/// Reclaimable file cache counts as free. The kernel grants far more shared memory than exists, and kills processes
/// that then use it: check here before large allocations.
uint64_t available_memory(const std::string& root = "");

/// Bytes that the control groups of this process allow in all; the largest number if there is no limit.
uint64_t memory_limit(const std::string& root = "");

/// Processes and threads that the control groups of this process still allow; the largest number if there is no limit.
uint64_t tasks_left(const std::string& root = "");

/// Cores' worth of time that this process may use; infinite if there is no limit.
double core_quota(const std::string& root = "");

}  // namespace tutti
