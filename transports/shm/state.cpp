#include "transports/shm/state.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.hpp"
#include "base/format.hpp"
#include "link/cma.hpp"
#include "transports/shm/tracer.hpp"

namespace tutti::transports::shm {
namespace {

std::string refused(const char* what) { return fmt::format("{} was refused: {}", what, std::strerror(errno)); }

/// "" if unnamed shared memory can be created; else why not.
std::string shm_objection() {
  constexpr size_t kBytes = 65536;
  const Fd memory(memfd_create("tutti-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return refused("memfd_create");
  if (posix_fallocate(memory.get(), 0, kBytes) != 0) return refused("memory for a memfd");
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return refused("sealing a memfd");
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return refused("mapping a memfd");
  munmap(mapped, kBytes);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket ? "" : refused("a UNIX socket");
}

/// A child process that is stopped until released.
class Sleeper {
 public:
  Sleeper() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const Fd ready(ends[0]), tell(ends[1]);
    process_ = fork();
    if (process_ == 0) {
      const int parent[] = {getppid()};
      permit_cma(parent, [](int) { return true; });
      const bool told = ::write(tell.get(), "x", 1) == 1;
      while (told) pause();
      _exit(1);
    }
    char byte = 0;
    if (process_ > 0 && ::read(ready.get(), &byte, 1) != 1) byte = 0;
  }
  ~Sleeper() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  int process() const { return process_; }

 private:
  pid_t process_ = -1;
};

/// True if processes can read each other's memory through the kernel here. Tried with a child that permits it.
std::string pulling() {
  const Sleeper child;
  if (child.process() < 0) return "not tried whether straight from its memory: " + refused("another process");
  const unsigned char mine[8] = {};
  unsigned char theirs[8];
  const int error = link::cma_read(child.process(), mine, theirs, sizeof theirs);
  if (error == 0) return "large ones straight from its memory (process_vm_readv works)";
  return fmt::format("never straight from its memory: process_vm_readv was refused: {}", std::strerror(error));
}

}  // namespace

std::string state() {
  const std::string objection = shm_objection();
  if (!objection.empty()) return "not usable: " + objection;
  return fmt::format("usable: {}; {}", kSummary, pulling());
}

}  // namespace tutti::transports::shm
