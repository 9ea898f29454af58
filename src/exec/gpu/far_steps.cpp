#include "exec/gpu/far_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <new>

#include "exec/gpu/pinned.hpp"

namespace tutti::exec::gpu {
namespace {

/// At least what any wait wants: streams compare in a circle, so it is not the greatest of all.
constexpr uint64_t kReleased = ~uint64_t{0} >> 1;

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}
void store(uint64_t& word, uint64_t value) { std::atomic_ref(word).store(value, std::memory_order_release); }

uint64_t address(const Gpu& gpu, unsigned char* on_host) {
  return reinterpret_cast<uint64_t>(gpu.device_address(on_host));
}

}  // namespace

FarSteps::FarSteps(const Gpu& gpu)
    : memory_(pinned(gpu, sizeof(Words))),
      slots_(pinned(gpu, kSlots * kFarSlotBytes)),
      words_(*new (memory_.get()) Words),
      words_at_(address(gpu, memory_.get())),
      slots_at_(address(gpu, slots_.get())) {}

uint64_t FarSteps::add(const FarStep& step) {
  const uint64_t number = added_.load(std::memory_order_relaxed);
  steps_[number % kMaxAhead] = step;
  peers_[number % kMaxAhead].store(step.peer, std::memory_order_relaxed);
  added_.store(number + 1, std::memory_order_seq_cst);
  return number;
}

void FarSteps::post(uint64_t steps) { store(words_.posted, steps); }

uint64_t FarSteps::copied() const { return load(words_.copied); }

uint64_t FarSteps::done() const { return load(words_.done); }

void FarSteps::release() const { store(words_.done, kReleased); }

/// Of those that were added: that is what orders this thread with the one that has filled the step.
uint64_t FarSteps::posted() const { return std::min(load(words_.posted), added_.load(std::memory_order_acquire)); }

void FarSteps::set_done(uint64_t steps) { store(words_.done, steps); }

}  // namespace tutti::exec::gpu
