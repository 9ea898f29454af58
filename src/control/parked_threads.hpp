// Detects threads of this process that only another thread can wake.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace tutti::control {

/// Threads that sleep until another thread wakes them, and how often each has gone to sleep or been preempted.
using ParkedThreads = std::map<pid_t, uint64_t>;

/// A look at every thread of this process except `threads`. Empty if one of them is not parked.
std::optional<ParkedThreads> read_threads(std::span<const pid_t> threads);

/// True if every thread of this process, except `threads`, sleeps until another thread wakes it: on a mutex, a
/// condition variable or a join, without a time limit. False if that cannot be determined. Two looks find the same: so
/// no thread ran between them, and all of them slept at one moment.
bool all_parked_but(std::span<const pid_t> threads);

}  // namespace tutti::control
