// Whom this process lets read and write its memory, where Yama asks (/proc/sys/kernel/yama/ptrace_scope is 1).
//
// Yama lets a process attach to its own descendants, and to whoever named it, or an ancestor of it, by prctl
// (PR_SET_PTRACER). A process names one other. The ranks of a host need each other, so each names the nearest ancestor
// that it has in common with the others: their launcher, as a rule. What the launcher started may attach; nothing else
// of this user may.
#pragma once

#include <functional>
#include <span>

namespace tutti::transports {

/// The process to name so that all of `others` may attach to `self`; 0 where there is none. The first process of the
/// machine is none (`whole_machine`: process 1 is that, not a container's): every process descends from it. Without a
/// common ancestor a single other can still be named itself. `parent_of` gives 0 for what it does not know.
int tracer_for(int self, std::span<const int> others, const std::function<int(int)>& parent_of, bool whole_machine);

/// Lets `others`, processes of this user on this host, pull from this one and push to it, and those that were let so
/// before. Where they cannot be let (they have nothing but the machine's first process in common), pulling is refused
/// by the kernel, and messages go through staging memory.
void permit_cma(std::span<const int> others);

}  // namespace tutti::transports
