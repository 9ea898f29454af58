// Ending what ranks have started, also what has left their process groups.
//
// Two ways lead there. Whatever a rank leaves behind becomes a child of the launcher (PR_SET_CHILD_SUBREAPER), which
// finds it whatever it has done to itself. When the launcher itself was killed, its guardian has only what the
// processes carry: their group, and the job's mark in their environment. A process that has left its group, cleared its
// environment (or may not be looked into, as one with more privileges) and outlived its parent is not found then.
#pragma once

#include <sys/types.h>

#include <string>

namespace tutti::tools {

/// Name of a guardian's process. It carries the mark of the job in which its own launcher runs, and is left alone: it
/// has work to do when that launcher is gone, and ends by itself.
inline constexpr char kGuardianName[] = "tutti-guardian";

/// Kills and reaps all children of this process but one, and those that become its children by that.
void kill_children(pid_t except);

/// Kills every process in whose environment `mark`, "NAME=value", stands, until there is none; at most 10 s long.
void kill_marked(const std::string& mark);

}  // namespace tutti::tools
