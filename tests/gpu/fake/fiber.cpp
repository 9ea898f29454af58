#include "fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "sanitizers.hpp"

// Saves the registers that a call preserves, and continues where `to` was saved.
extern "C" void fake_cuda_switch(void** save, void* to);
asm(R"(
.text
.hidden fake_cuda_switch
.globl fake_cuda_switch
.type fake_cuda_switch, @function
fake_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fake_cuda_switch, .-fake_cuda_switch
)");

namespace fake {
namespace {

constexpr size_t kStack = 256 << 10, kGuard = 4096;

thread_local Fiber* running = nullptr;
thread_local void* engine_stack_pointer = nullptr;
thread_local void* engine_tsan = nullptr;
thread_local const void* engine_bottom = nullptr;
thread_local size_t engine_bytes = 0;

}  // namespace

FiberPool::~FiberPool() {
  for (const Item& item : items_) {
    if (item.tsan != nullptr) __tsan_destroy_fiber(item.tsan);
    munmap(item.stack, kStack);
  }
}

FiberPool::Item FiberPool::take() {
  if (!items_.empty()) {
    const Item item = items_.back();
    items_.pop_back();
    return item;
  }
  void* const stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) std::abort();
  mprotect(stack, kGuard, PROT_NONE);
  return {static_cast<unsigned char*>(stack), __tsan_create_fiber == nullptr ? nullptr : __tsan_create_fiber(0)};
}

Fiber::Fiber(FiberPool& pool, void (*run)(void*), void* argument) : run_(run), argument_(argument) {
  const FiberPool::Item item = pool.take();
  stack_ = item.stack;
  tsan_ = item.tsan;
  // The first switch "returns" into enter() with an empty stack, aligned as after a call.
  auto* top = reinterpret_cast<uint64_t*>(stack_ + kStack);
  *--top = 0;
  *--top = reinterpret_cast<uint64_t>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_pointer_ = top;
}

Fiber* Fiber::current() { return running; }

unsigned long Fiber::middle_of_stack() const { return reinterpret_cast<unsigned long>(stack_) + kStack / 2; }

void Fiber::resume() {
  running = this;
  void* asan = nullptr;
  if (__sanitizer_start_switch_fiber != nullptr) __sanitizer_start_switch_fiber(&asan, stack_, kStack);
  if (tsan_ != nullptr) {
    engine_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, kNoSync);
  }
  fake_cuda_switch(&engine_stack_pointer, stack_pointer_);
  if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(asan, nullptr, nullptr);
  running = nullptr;
}

void Fiber::enter() {
  Fiber* const self = running;
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(nullptr, &engine_bottom, &engine_bytes);
  }
  self->run_(self->argument_);
  self->end();
}

void Fiber::yield() {
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(ended_ ? nullptr : &asan_stack_, engine_bottom, engine_bytes);
  }
  if (tsan_ != nullptr) __tsan_switch_to_fiber(engine_tsan, kNoSync);
  fake_cuda_switch(&stack_pointer_, engine_stack_pointer);
  if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(asan_stack_, nullptr, nullptr);
}

void Fiber::end() {
  ended_ = true;
  yield();
  std::abort();  // nobody resumes it
}

}  // namespace fake
