// Reading and writing another process's memory without its help (cross-memory attach, Linux's process_vm_readv and
// process_vm_writev): the kernel copies once, from pages of the one to pages of the other. Whom it lets: tracer.hpp.
#pragma once

#include <cstdint>

namespace tutti::transports {

/// Copies `bytes` bytes from `from`, an address in `process`, to `to`. 0, or the errno of what went wrong: ESRCH where
/// the process is gone, EPERM where the kernel does not permit it, EFAULT where it has no such memory.
int pull(int process, const unsigned char* from, unsigned char* to, uint64_t bytes);

/// The other way: to `to`, an address in `process`.
int push(int process, const unsigned char* from, unsigned char* to, uint64_t bytes);

}  // namespace tutti::transports
