// What processes leave behind on their host.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tutti::fault {

/// Named objects that outlive a process: files in /dev/shm and /tmp. (Sockets and anonymous memory vanish with the last
/// process that holds them.) Other programs may add some: compare before and after.
std::set<std::string> lasting_things();

/// Processes whose environment holds `NAME=value`.
std::vector<int> processes_with(const std::string& variable);

}  // namespace tutti::fault
