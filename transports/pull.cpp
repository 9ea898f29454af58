#include "transports/pull.hpp"

#include <sys/uio.h>

#include <cerrno>

namespace tutti::transports {

namespace {

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

/// All of it, however much the kernel does at a time.
int repeat(Call call, int process, unsigned char* here, unsigned char* there, uint64_t bytes) {
  while (bytes > 0) {
    const iovec local{here, bytes}, remote{there, bytes};
    const ssize_t done = call(process, &local, 1, &remote, 1, 0);
    if (done < 0) return errno;
    if (done == 0) return EFAULT;
    here += done;
    there += done;
    bytes -= static_cast<uint64_t>(done);
  }
  return 0;
}

}  // namespace

int pull(int process, const unsigned char* from, unsigned char* to, uint64_t bytes) {
  return repeat(::process_vm_readv, process, to, const_cast<unsigned char*>(from), bytes);
}

int push(int process, const unsigned char* from, unsigned char* to, uint64_t bytes) {
  return repeat(::process_vm_writev, process, const_cast<unsigned char*>(from), to, bytes);
}

}  // namespace tutti::transports
