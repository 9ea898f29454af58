// Ends all descendants of ranks, also those that have left their process groups.
//
// Orphans of ranks become children of the launcher (PR_SET_CHILD_SUBREAPER), which can always find them. If the
// launcher itself was killed, its guardian can only search processes by their group and by the job's mark in their
// environment. A process is then missed if it has left its group, cleared its environment (or is not readable, having
// more privileges) and outlived its parent.
#pragma once

#include <sys/types.h>

#include <string>

namespace tutti::tools {

/// Name of a guardian's process. A guardian carries the mark of the job in which its own launcher runs, and must not be
/// killed: it has work to do when that launcher dies, and ends by itself.
inline constexpr char kGuardianName[] = "tutti-guardian";

/// Kills and reaps all children of this process except one, and those that become its children meanwhile.
void kill_children(pid_t except);

/// Kills every process with `mark`, "NAME=value", in its environment, until none is left; for 10 s at most.
void kill_marked(const std::string& mark);

}  // namespace tutti::tools
