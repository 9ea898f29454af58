// Threads of this process that cannot go on by themselves.
#pragma once

#include <sys/types.h>

#include <span>

namespace tutti::control {

/// True if every thread of this process but those sleeps until another one wakes it: on a mutex, a condition variable,
/// a join, without a time limit. False where that cannot be seen.
bool all_parked_but(std::span<const pid_t> threads);

}  // namespace tutti::control
