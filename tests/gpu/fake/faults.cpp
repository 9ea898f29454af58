// An access that the device was not granted is a SIGSEGV here, because the memory is closed. In a GPU's thread it ends
// the kernel; in a thread of the host it is what it would be with a real driver.
#include "faults.hpp"

#include <cuda.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>

#include "machine.hpp"
#include "memory.hpp"

namespace fake {
namespace {

struct sigaction before[2];

[[noreturn]] void land() { fault(CUDA_ERROR_ILLEGAL_ADDRESS, ""); }

void handle(int signal, siginfo_t* info, void* context) {
  if (Fiber* const fiber = Fiber::current(); fiber != nullptr) {
    Machine::fault_address = info->si_addr;
    // The handler returns into land(), on a part of the fiber's stack that is certainly there.
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    registers[REG_RSP] = static_cast<greg_t>(fiber->middle_of_stack() - 8);
    registers[REG_RIP] = reinterpret_cast<greg_t>(&land);
    return;
  }
  if (memory().in_range(info->si_addr)) {
    char text[160];
    const int length =
        std::snprintf(text, sizeof text,
                      "fake cuda: the host touched device memory, at %p: copy it, or use host memory\n", info->si_addr);
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, length);
  }
  sigaction(signal, &before[signal == SIGBUS], nullptr);  // and the access is tried again
}

}  // namespace

void catch_faults() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before[0]);
  sigaction(SIGBUS, &action, &before[1]);
}

void use_signal_stack() {
  constexpr size_t kBytes = 64 << 10;
  stack_t stack{};
  stack.ss_sp = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

}  // namespace fake
