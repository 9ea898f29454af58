// What a repeated call does on its way to the GPU: it allocates nothing, makes no system call, and asks the driver for
// one launch, but never to allocate or to wait. Counted with the stand-in for the driver, whose own system calls are
// not.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have an allocator of their own
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <csignal>
#include <map>
#include <string>

#include "calls/gpu_program.hpp"

namespace {
thread_local uint64_t t_allocations = 0;
thread_local bool t_counts = false;  // allocations
int (*inside_the_driver)() = nullptr;
void count_allocation() {
  if (t_counts && inside_the_driver() == 0) ++t_allocations;
}
}  // namespace

// glibc's internal names of the allocation functions: the wrappers only count.
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT
void* __libc_realloc(void* memory, size_t bytes);       // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT
void* malloc(size_t bytes) { return count_allocation(), __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return count_allocation(), __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) { return count_allocation(), __libc_realloc(memory, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return count_allocation(), __libc_memalign(alignment, bytes); }
}

namespace tutti {
namespace {

// ---- system calls of this thread: before each, the kernel sends SIGSYS (PR_SET_SYSCALL_USER_DISPATCH)

constexpr int kDispatch = 59, kOn = 1, kOff = 0;  // as in linux/prctl.h
constexpr char kAllow = 0, kBlock = 1;
thread_local volatile char t_selector = kAllow;
thread_local volatile int t_system_calls = 0, t_last_system_call = -1;

// System calls made here reach the kernel: the handler's own, and its return.
asm(R"(
  .pushsection .text
  .globl tutti_free_calls, tutti_free_calls_end, tutti_return_from_signal, tutti_system_call
tutti_free_calls:
tutti_return_from_signal:
  mov $15, %eax
  syscall
tutti_system_call:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
  ret
tutti_free_calls_end:
  .popsection
)");
extern "C" {
extern const char tutti_free_calls[], tutti_free_calls_end[];
void tutti_return_from_signal();
long tutti_system_call(long number, long a, long b, long c, long d, long e, long f);
}

/// Counts the call, and makes it.
void on_system_call(int, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (inside_the_driver() == 0) {
    t_system_calls = t_system_calls + 1;
    t_last_system_call = info->si_syscall;
  }
  registers[REG_RAX] = tutti_system_call(info->si_syscall, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                         registers[REG_R10], registers[REG_R8], registers[REG_R9]);
}

/// The number of system calls that `body` makes outside the driver; −1: this kernel cannot tell.
int system_calls_of(const std::function<void()>& body) {
  struct {  // as the kernel has it: glibc would return from the handler by a call of its own
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } const action{on_system_call, SA_SIGINFO | 0x04000000, tutti_return_from_signal, 0};
  syscall(SYS_rt_sigaction, SIGSYS, &action, nullptr, sizeof action.mask);
  if (prctl(kDispatch, kOn, tutti_free_calls, tutti_free_calls_end - tutti_free_calls, &t_selector) != 0) return -1;
  t_system_calls = 0;
  t_selector = kBlock;
  body();
  t_selector = kAllow;
  prctl(kDispatch, kOff, 0, 0, 0);
  return t_system_calls;
}

template <class Function>
Function fake(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

struct Counted {
  uint64_t allocations = UINT64_MAX;
  int system_calls = 0;
};

/// Of `calls` repeated calls; the least of several batches, since another thread may make a lock wait.
Counted count(int calls, const std::function<void()>& call) {
  Counted least{UINT64_MAX, 1 << 30};
  for (int batch = 0; batch < 5; ++batch) {
    const uint64_t before = t_allocations;
    const int made = system_calls_of([&] {
      t_counts = true;
      for (int i = 0; i < calls; ++i) call();
      t_counts = false;
    });
    least.allocations = std::min(least.allocations, t_allocations - before);
    least.system_calls = std::min(least.system_calls, made);
  }
  return least;
}

TEST(LaunchPath, AllocatesNothingAndMakesNoSystemCall) {
  inside_the_driver = fake<int (*)()>("fake_cuda_inside");
  if (inside_the_driver == nullptr) GTEST_SKIP() << "the driver is a real one";
  use_gpu(0);
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuBuffer in(1 << 20), out(1 << 20);
    const GpuStream stream;
    meet();
    for (const size_t elements : {size_t{2}, size_t{20000}, size_t{1} << 18}) {
      const auto call = [&] {
        ASSERT_EQ(tuttiAllReduce(in.get(), out.get(), elements, tuttiFloat32, tuttiSum, comm, stream.handle()),
                  tuttiSuccess);
      };
      call();
      const Counted found = count(20, call);
      EXPECT_EQ(found.allocations, 0U) << elements << " elements, rank " << rank;
      EXPECT_LE(found.system_calls, 0) << "the last: " << t_last_system_call;
      stream.synchronize();
    }
  });
}

/// The driver's calls in the sum of both ranks.
TEST(LaunchPath, AsksTheDriverForOneLaunchAndNeverToWait) {
  const auto calls_of = fake<uint64_t (*)(const char*)>("fake_cuda_calls");
  if (calls_of == nullptr) GTEST_SKIP() << "the driver is a real one";
  constexpr int kRanks = 2, kCalls = 50;
  const char* const never[] = {"cuMemAlloc",          "cuMemAllocAsync",     "cuMemHostAlloc",     "cuMemCreate",
                               "cuMemFree",           "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize",
                               "cuMemHostRegister",   "cuMemcpyHtoDAsync",   "cuMemcpyDtoHAsync",  "cuMemsetD8Async",
                               "cuStreamCreate",      "cuEventCreate",       "cuLibraryLoadData",  "cuModuleLoadData",
                               "cuKernelGetFunction", "cuLaunchHostFunc"};
  use_gpu(0);
  std::map<std::string, uint64_t> before;
  std::barrier all(kRanks);
  with_ranks(kRanks, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuBuffer in(1 << 20), out(1 << 20);
    const GpuStream stream;
    meet();
    const auto calls = [&](int times) {
      for (int i = 0; i < times; ++i) {
        ASSERT_EQ(tuttiAllReduce(in.get(), out.get(), i % 2 == 0 ? 4 : 1 << 18, tuttiFloat32, tuttiSum, comm,
                                 stream.handle()),
                  tuttiSuccess);
      }
    };
    calls(2);
    stream.synchronize();
    all.arrive_and_wait();
    if (rank == 0) {
      for (const char* name : never) before[name] = calls_of(name);
      before["cuLaunchKernel"] = calls_of("cuLaunchKernel");
    }
    all.arrive_and_wait();
    calls(kCalls);
    all.arrive_and_wait();
    if (rank == 0) {
      for (const char* name : never) EXPECT_EQ(calls_of(name), before[name]) << name;
      EXPECT_EQ(calls_of("cuLaunchKernel") - before["cuLaunchKernel"], uint64_t{kRanks} * kCalls);
    }
    all.arrive_and_wait();
    stream.synchronize();
  });
}

}  // namespace
}  // namespace tutti
#endif
