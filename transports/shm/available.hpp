// How much memory can still be had. The kernel promises shared memory far beyond what there is, and kills processes
// when it is then used; so whoever wants much asks here first.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::transports {

/// Bytes that this process could still use: what the machine has free, or less where a control group (version 1 or 2)
/// above it is nearer to its limit; reclaimable file cache counts as free. What cannot be read does not limit.
/// `root` stands before /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

}  // namespace tutti::transports
