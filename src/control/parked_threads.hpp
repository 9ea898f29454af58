// Detects threads of this process that only another thread can wake.
#pragma once

#include <sys/types.h>

#include <span>

namespace tutti::control {

/// True if every thread of this process, except `threads`, sleeps until another thread wakes it: on a mutex, a
/// condition variable or a join, without a time limit. False if that cannot be determined.
bool all_parked_but(std::span<const pid_t> threads);

}  // namespace tutti::control
