#include "link/cma.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/format.hpp"

namespace tutti::link {

namespace {

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

/// Repeats the call until all bytes are copied; each call first writes to `gate`, if it is not 0.
int repeat(Call call, int process, unsigned char* ours, unsigned char* theirs, uint64_t bytes, uint64_t gate) {
  uint64_t token = 0;
  const uint64_t gate_bytes = gate != 0 ? sizeof token : 0;
  const unsigned long first = gate != 0 ? 0 : 1;
  while (bytes > 0) {
    const uint64_t part = std::min(bytes, kCmaCall);
    const iovec local[] = {{&token, gate_bytes}, {ours, part}};
    const iovec remote[] = {{reinterpret_cast<void*>(gate), gate_bytes}, {theirs, part}};
    const ssize_t done = call(process, local + first, 2 - first, remote + first, 2 - first, 0);
    if (done < 0) return errno;
    const uint64_t moved = static_cast<uint64_t>(done) - std::min(static_cast<uint64_t>(done), gate_bytes);
    if (moved == 0) return EFAULT;
    ours += moved;
    theirs += moved;
    bytes -= moved;
  }
  return 0;
}

/// The states of a process's threads, one letter each, as in /proc; "" if the process is gone, "?" if /proc cannot be
/// read.
std::string states_of(int process) {
  std::string states;
  std::error_code error;
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", process);
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t name = line.rfind(')');
    states += name != std::string::npos && name + 2 < line.size() ? line[name + 2] : '?';
  }
  if (error) states.assign(1, '?');
  if (::kill(process, 0) != 0 && errno == ESRCH) states.clear();
  return states;
}

}  // namespace

int cma_read(int process, const unsigned char* from, unsigned char* to, uint64_t bytes) {
  return repeat(::process_vm_readv, process, to, const_cast<unsigned char*>(from), bytes, 0);
}

int cma_write(int process, const unsigned char* from, unsigned char* to, uint64_t bytes, uint64_t gate) {
  return repeat(::process_vm_writev, process, const_cast<unsigned char*>(from), to, bytes, gate);
}

CmaGate::CmaGate() {
  void* const page = ::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) page_ = page;
}

CmaGate::~CmaGate() {
  if (page_ != nullptr && !shut_) ::munmap(page_, 1);  // a shut gate's address must never become writable again
}

void CmaGate::shut() {
  if (page_ == nullptr || shut_) return;
  shut_ = true;
  if (::mprotect(page_, 1, PROT_NONE) != 0) ::munmap(page_, 1);
}

bool is_gone(int process) { return states_of(process).find_first_not_of("ZX") == std::string::npos; }

bool may_be_in_kernel(int process) { return states_of(process).find_first_not_of("TtZX") != std::string::npos; }

}  // namespace tutti::link
