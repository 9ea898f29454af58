// ReadAccess and writing another process's memory without its help (cross-memory attach, Linux's process_vm_readv and
// process_vm_writev): the kernel copies once, from pages of the one to pages of the other. Whom it lets: tracer.hpp.
#pragma once

#include <cstdint>

namespace tutti::link {

/// Copies `bytes` bytes from `from`, an address in `process`, to `to`. 0, or the errno of what went wrong: ESRCH where
/// the process is gone, EPERM where the kernel does not permit it, EFAULT where it has no such memory.
int cma_read(int process, const unsigned char* from, unsigned char* to, uint64_t bytes);

/// The other way: to `to`, an address in `process`, through the gate at `gate` there: EFAULT where that is shut.
int cma_write(int process, const unsigned char* from, unsigned char* to, uint64_t bytes, uint64_t gate);

/// What others have to pass who push into this process. A rank that was told where to push may be stopped before it
/// does, and go on when the memory there has long been used for something else. So each push writes to the gate's page
/// first, in the same system call: where that cannot be written any more the kernel ends the call before it has come to
/// anything else, and within a system call nobody is stopped.
class CmaGate {
 public:
  CmaGate();
  ~CmaGate();
  CmaGate(const CmaGate&) = delete;
  CmaGate& operator=(const CmaGate&) = delete;
  /// 0 where there is none, as the system had no page for it.
  uint64_t address() const { return reinterpret_cast<uint64_t>(page_); }
  /// For good, and whatever happens to the gate. Pushes that have passed it go on: they have to be waited for.
  void shut();

 private:
  void* page_ = nullptr;
  bool shut_ = false;
};

/// Can this process be in the middle of a system call? Not where it is gone, or all its threads are stopped: a signal
/// stops a thread on the way out of the kernel.
bool may_be_in_kernel(int process);
/// Has it ended?
bool is_gone(int process);

}  // namespace tutti::link
