// What processes leave behind on their host.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tutti::fault {

/// Things with a name that outlive a process: files in /dev/shm and /tmp. (Sockets and anonymous memory go with the
/// last process that has them.) Other programs may add some too: compare what was there before with what is there
/// later.
std::set<std::string> lasting_things();

/// Processes whose environment holds `NAME=value`.
std::vector<int> processes_with(const std::string& variable);

}  // namespace tutti::fault
