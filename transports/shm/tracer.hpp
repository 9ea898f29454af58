// Which processes may use CMA on this one under the Yama security module (/proc/sys/kernel/yama/ptrace_scope is 1).
//
// Yama lets a process attach to its descendants, and to each process that has named it or one of its ancestors by
// prctl(PR_SET_PTRACER). A process can name one other. The ranks of a host need each other, so each names the nearest
// common ancestor of all of them, normally the launcher. Then the processes that the launcher started may attach, and
// no other process of this user.
#pragma once

#include <functional>
#include <span>

namespace tutti::transports {

/// The process to name so that all of `others` may attach to `self`; 0 if there is none. Process 1 is not named if it
/// is the machine's and not a container's (`whole_machine`), because every process descends from it. Without a common
/// ancestor, a single other process is named itself. `parent_of` returns 0 for an unknown parent.
int tracer_for(int self, std::span<const int> others, const std::function<int(int)>& parent_of, bool whole_machine);

/// What permit_cma does to the system, and has done. Tests have their own.
struct Yama {
  std::function<bool()> restricts;
  std::function<int(int)> parent_of;
  std::function<bool(int)> name;
  bool whole_machine;
  int named = 0, by = 0;  // by process `by`: a forked child has named none
};

/// Is this process really a rank's? Peers state the numbers of their processes, and could state a foreign one.
using Confirm = std::function<bool(int process)>;

/// Permits CMA on this process to those of `others`, processes of this user on this host, that are confirmed, and to
/// those permitted before. If it cannot (their only common ancestor is the machine's process 1), the kernel refuses
/// CMA, and messages are staged.
void permit_cma(std::span<const int> others, const Confirm& confirm);
void permit_cma(std::span<const int> others, const Confirm& confirm, Yama& yama);

}  // namespace tutti::transports
