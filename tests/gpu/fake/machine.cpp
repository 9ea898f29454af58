#include "machine.hpp"

#include <algorithm>

#include "config.hpp"
#include "sanitizers.hpp"
#include "twins.hpp"

namespace fake {

GpuThread* Machine::current = nullptr;
int Machine::fault_code = 0;
std::string Machine::fault_text;
const void* Machine::fault_address = nullptr;

// SplitMix64.
Random::Random(uint64_t stream) : state_(config().seed * 0xD1342543DE82EF95ULL + stream) { next(); }

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

Machine::Machine(int device, uint32_t multiprocessors) : device_(device), random_(device), used_(multiprocessors) {}

void Machine::launch(Grid* grid) {
  grid->machine = this;
  ++launches_;
  // What a launch on an idle GPU does follows from the seed alone, not from the time that has passed.
  if (grids_.empty()) random_ = Random(launches_ << 8 | static_cast<uint64_t>(device_));
  grid->fails_after = static_cast<uint32_t>(random_.next() % 32);
  grid->waiting.resize(grid->blocks);
  for (uint32_t i = 0; i < grid->blocks; ++i) grid->waiting[i] = i;
  // No order of a grid's blocks is promised.
  for (uint32_t i = grid->blocks; i > 1; --i) std::swap(grid->waiting[i - 1], grid->waiting[random_.next() % i]);
  grids_.push_back(grid);
  fill();
}

void Machine::take(Grid& grid, uint32_t multiprocessor, int sign) {
  Used& used = used_[multiprocessor];
  used.blocks += sign;
  used.threads += sign * grid.threads;
  used.registers += sign * grid.threads * Occupancy::registers(*grid.twin);
  used.shared += sign * static_cast<int64_t>(grid.dynamic_shared + Occupancy::kReserved);
}

bool Machine::place(Grid& grid) {
  const auto some = grid.multiprocessors == 0 ? static_cast<uint32_t>(used_.size()) : grid.multiprocessors;
  const uint32_t first = random_.next() % some;
  for (uint32_t i = 0; i < some; ++i) {
    const uint32_t multiprocessor = grid.first_multiprocessor + (first + i) % some;
    const Used& used = used_[multiprocessor];
    if (used.blocks + 1 > Occupancy::kBlocks || used.threads + grid.threads > Occupancy::kThreads ||
        used.registers + grid.threads * Occupancy::registers(*grid.twin) > Occupancy::kRegisters ||
        used.shared + grid.dynamic_shared + Occupancy::kReserved > Occupancy::kShared) {
      continue;
    }
    take(grid, multiprocessor, 1);
    auto block = std::make_unique<Block>(grid, grid.waiting.back());
    grid.waiting.pop_back();
    block->multiprocessor = multiprocessor;
    for (auto& thread : block->threads) make_runnable(*thread);
    grid.resident.push_back(std::move(block));
    return true;
  }
  return false;
}

// Blocks of a later grid wait for those of an earlier one.
void Machine::fill() {
  for (Grid* grid : grids_) {
    while (!grid->waiting.empty()) {
      if (!place(*grid)) return;
    }
  }
}

void Machine::make_runnable(GpuThread& thread) {
  thread.state = ThreadState::Runnable;
  thread.runnable_at = runnable_.size();
  runnable_.push_back(&thread);
}

void Machine::stop_running(GpuThread& thread) {
  runnable_.back()->runnable_at = thread.runnable_at;
  runnable_[thread.runnable_at] = runnable_.back();
  runnable_.pop_back();
}

bool Machine::run(uint32_t turns) {
  bool progress = false;
  size_t polls = 0;  // since the last progress
  for (uint32_t i = 0; i < turns && !runnable_.empty() && polls < 2 * runnable_.size() + 2; ++i) {
    GpuThread& thread = *runnable_[random_.next() % runnable_.size()];
    thread.turn = Turn::Progress;
    turn(thread);
    if (fault_code != 0) return true;
    polls = thread.turn == Turn::Polled ? polls + 1 : 0;
    if (thread.turn == Turn::Progress) progress = true;
    if (thread.fiber.ended()) {
      ended(thread);
    } else if (thread.state != ThreadState::Runnable) {
      stop_running(thread);
    }
  }
  return progress;
}

void Machine::turn(GpuThread& thread) {
  current = &thread;
  set_running_thread(&thread.place);
  thread.steps_left = 1 + random_.next() % 64;
  thread.fiber.resume();
  current = nullptr;
}

void Machine::ended(GpuThread& thread) {
  stop_running(thread);
  Block& block = thread.block;
  Grid& grid = block.grid;
  --block.live;
  if (block.live != 0) return thread_ended(thread);
  take(grid, block.multiprocessor, -1);
  std::erase_if(grid.resident, [&](const auto& one) { return one.get() == &block; });
  if (++grid.ended == grid.blocks) std::erase(grids_, &grid);
  fill();
}

void Machine::kill() {
  for (Grid* grid : grids_) {
    grid->faulted = true;
    grid->waiting.clear();
    grid->resident.clear();
  }
  grids_.clear();
  runnable_.clear();
  for (Used& used : used_) used = Used{};
}

}  // namespace fake
