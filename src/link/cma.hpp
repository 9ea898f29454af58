// Cross-memory attach (CMA): reads and writes another process's memory by Linux's process_vm_readv and
// process_vm_writev. The kernel copies once, directly between the two processes. transports/shm/tracer.hpp says which
// processes it permits.
#pragma once

#include <cstdint>

namespace tutti::link {

/// Bytes of a system call, at most: the kernel takes little less than 2 GiB, and a writer is to pass its gate often.
inline constexpr uint64_t kCmaCall = 16 << 20;

/// Copies `bytes` bytes from `from`, an address in `process`, to `to`. Returns 0 or an errno: ESRCH if the process is
/// gone, EPERM if the kernel does not permit it, EFAULT if the process has no such memory.
int cma_read(int process, const unsigned char* from, unsigned char* to, uint64_t bytes);

/// Copies to `to`, an address in `process`, after writing to that process's CmaGate at `gate`. EFAULT if the gate is
/// shut.
int cma_write(int process, const unsigned char* from, unsigned char* to, uint64_t bytes, uint64_t gate);

/// Revokes the permission to write into this process by CMA. A rank that has got a destination address may be stopped
/// before it writes, and continue when the memory is used for something else. So each CMA write writes to the gate's
/// page first, in the same system call: once that page is not writable, the kernel fails the call before it touches the
/// destination. A process is never stopped inside such a system call.
class CmaGate {
 public:
  CmaGate();
  ~CmaGate();
  CmaGate(const CmaGate&) = delete;
  CmaGate& operator=(const CmaGate&) = delete;
  /// 0 if the system had no page for the gate.
  uint64_t address() const { return reinterpret_cast<uint64_t>(page_); }
  /// Permanent, also after the gate's destruction. A CMA write that has passed the gate continues: wait for it.
  void shut();

 private:
  void* page_ = nullptr;
  bool shut_ = false;
};

/// Can this process be inside a system call? No if it is gone or all its threads are stopped, because a signal stops a
/// thread only when it leaves the kernel.
bool may_be_in_kernel(int process);
/// Has the process ended?
bool is_gone(int process);

}  // namespace tutti::link
