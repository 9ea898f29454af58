#include "grid.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "config.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "multicast.hpp"
#include "sanitizers.hpp"

namespace fake {
namespace {

constexpr unsigned char kPoison = 0xA5;  // memory of a block begins with anything
constexpr size_t kStaticShared = 48 << 10;

void run_thread(void* argument) {
  auto& thread = *static_cast<GpuThread*>(argument);
  Grid& grid = thread.block.grid;
  tsan_acquire(&grid.tsan_start);
  grid.twin->run(grid.parameter_memory());
  if (grid.injected != 0) fault(grid.injected, "injected fault");
  tsan_release(&grid.tsan_end);
}

}  // namespace

GpuThread::GpuThread(Block& its_block, uint32_t index)
    : block(its_block),
      place{index, its_block.grid.threads, its_block.index, its_block.grid.blocks, its_block.dynamic_shared.get()},
      fiber(*its_block.grid.fibers, run_thread, this) {}

GpuThread::~GpuThread() { block.grid.used_fibers.push_back(fiber.item()); }

Grid::~Grid() {
  resident.clear();
  for (const FiberPool::Item& item : used_fibers) fibers->give(item);
}

Block::Block(Grid& its_grid, uint32_t its_index) : grid(its_grid), index(its_index), live(its_grid.threads) {
  dynamic_shared = std::make_unique<unsigned char[]>(grid.dynamic_shared + 1);
  std::memset(dynamic_shared.get(), kPoison, grid.dynamic_shared);
  static_shared = std::make_unique<unsigned char[]>(kStaticShared);
  std::memset(static_shared.get(), kPoison, kStaticShared);
  for (uint32_t i = 0; i < grid.threads; ++i) threads.push_back(std::make_unique<GpuThread>(*this, i));
}

void* Grid::parameter_memory() {
  if (aligned_ == nullptr) {
    aligned_ = std::make_unique<unsigned char[]>(parameters.size() + 64);
    std::memcpy(parameter_memory(), parameters.data(), parameters.size());
  }
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(aligned_.get()) + 63) & ~uintptr_t{63});
}

uint32_t Occupancy::registers(const Twin& twin) {
  constexpr uint32_t kAssumed = 64;  // the kernels' own limit, which a test proves from the binary
  const uint32_t threads = std::max(1U, twin.max_threads) * std::max(1U, twin.min_blocks);
  return std::min(kAssumed, kRegisters / threads / 8 * 8);
}

uint32_t Occupancy::blocks(const Twin& twin, uint32_t threads, size_t dynamic_shared) {
  if (threads == 0 || dynamic_shared > kSharedOfBlock) return 0;
  const uint32_t by_shared = kShared / static_cast<uint32_t>(dynamic_shared + kReserved);
  return std::min({kBlocks, kThreads / threads, kRegisters / (registers(twin) * threads), by_shared});
}

// ---- what twins call --------------------------------------------------------------------------------------

void fault(int code, std::string_view what) {
  GpuThread& thread = *Machine::current;
  begin_unseen();
  Machine::fault_code = code;
  Machine::fault_text = std::string(thread.block.grid.twin->name) + ": block " + std::to_string(thread.place.block) +
                        ", thread " + std::to_string(thread.place.thread) + ": " + std::string(what);
  end_unseen();
  thread.fiber.end();
}

namespace {

void release_barrier(Block& block);
bool release_lanes(GpuThread& caller);
GpuThread& self() { return *Machine::current; }

void sync_block() {
  Block& block = self().block;
  tsan_release(&block);
  ++block.arrived;
  if (block.arrived == block.live) {
    release_barrier(block);
  } else {
    self().state = ThreadState::AtBarrier;
  }
  self().fiber.yield();
  tsan_acquire(&block);
}

bool sync_block_or(bool value) {
  Block& block = self().block;
  block.any |= value;
  sync_block();
  return block.any_result;
}

uint32_t lane_of(const GpuThread& thread) { return thread.place.thread % tutti::ptx::kWarp; }

uint64_t warp_call(WarpCall call, uint32_t mask, uint64_t value, uint32_t from_lane) {
  GpuThread& thread = self();
  if ((mask >> lane_of(thread) & 1) == 0) fault(CUDA_ERROR_LAUNCH_FAILED, "its mask of lanes is without its own");
  thread.call = call;
  thread.mask = mask;
  thread.value = value;
  thread.from_lane = from_lane;
  thread.state = ThreadState::AtWarp;
  if (release_lanes(thread)) thread.state = ThreadState::Runnable;
  thread.fiber.yield();
  return thread.value;
}

void sync_warp(uint32_t mask) {
  void* const warp = &self().block.threads[self().place.thread / tutti::ptx::kWarp * tutti::ptx::kWarp]->value;
  tsan_release(warp);
  warp_call(WarpCall::Sync, mask, 0, 0);
  tsan_acquire(warp);
}
uint64_t shuffle(uint32_t mask, uint64_t value, uint32_t from) {
  return warp_call(WarpCall::Shuffle, mask, value, from % tutti::ptx::kWarp);
}
uint32_t ballot(uint32_t mask, bool value) {
  return static_cast<uint32_t>(warp_call(WarpCall::Ballot, mask, value ? 1 : 0, 0));
}

void pause() {
  self().turn = Turn::Polled;
  self().fiber.yield();
}

void trap() { fault(CUDA_ERROR_LAUNCH_FAILED, "the kernel ended itself"); }

std::atomic<uint64_t> fences_of_device{0}, fences_of_system{0};

void count_fence(bool of_system) { ++(of_system ? fences_of_system : fences_of_device); }

constexpr int kNoGpu = 32;  ///< the host's memory, or a block's own
std::atomic<uint64_t> moved_bytes[2][32][kNoGpu + 1];

void count_moved(const void* at, uint32_t bytes, bool stored) {
  if (!config().counts) return;
  const Unseen unseen;
  const Mapping* const mapping = memory().find(reinterpret_cast<uintptr_t>(at));
  const int of = mapping == nullptr || mapping->on_host() ? kNoGpu : mapping->device;
  moved_bytes[stored ? 1 : 0][self().block.grid.machine->device()][of] += bytes;
}

void step() {
  GpuThread& thread = self();
  Grid& grid = thread.block.grid;
  if (grid.injected != 0 && grid.fails_after-- == 0) fault(grid.injected, "injected fault");
  if (--thread.steps_left == 0) thread.fiber.yield();
}

// The first thread that asks for a variable makes it. No lock: it would order the threads.
void* shared(const void* key, size_t bytes, size_t alignment) {
  Block& block = self().block;
  for (SharedVariable& variable : block.shared) {
    if (variable.key.load(std::memory_order_relaxed) == key) return variable.at.load(std::memory_order_relaxed);
    if (variable.key.load(std::memory_order_relaxed) != nullptr) continue;
    const size_t at =
        (block.static_shared_used.load(std::memory_order_relaxed) + alignment - 1) / alignment * alignment;
    if (at + bytes > kStaticShared) fault(CUDA_ERROR_LAUNCH_FAILED, "more than 48 KiB of static shared memory");
    block.static_shared_used.store(at + bytes, std::memory_order_relaxed);
    variable.at.store(block.static_shared.get() + at, std::memory_order_relaxed);
    variable.key.store(key, std::memory_order_relaxed);
    return block.static_shared.get() + at;
  }
  fault(CUDA_ERROR_LAUNCH_FAILED, "more than 64 variables in shared memory");
}

// In an order of its own each time. A forbidden access is one to the address itself, which is always closed.
uint32_t multicast(const void* address, size_t bytes, void** places) {
  const GpuThread& thread = self();
  begin_unseen();
  const uint32_t count = multicast_places(address, bytes, thread.block.grid.machine->device(), places);
  end_unseen();
  if (count == 0) *static_cast<volatile const unsigned char*>(address);
  for (uint32_t i = count; i > 1; --i) std::swap(places[i - 1], places[thread.block.grid.machine->random() % i]);
  return count;
}

// Called by the last that arrives, who has its turn, or after the end of a thread.
void release_barrier(Block& block) {
  const Unseen unseen;
  block.arrived = 0;
  block.any_result = block.any;
  block.any = false;
  for (auto& thread : block.threads) {
    if (thread->state == ThreadState::AtBarrier) block.grid.machine->make_runnable(*thread);
  }
}

bool release_lanes(GpuThread& caller) {
  const Unseen unseen;
  auto& threads = caller.block.threads;
  const uint32_t first = caller.place.thread - lane_of(caller);
  std::vector<GpuThread*> lanes;
  for (uint32_t i = first; i < std::min<size_t>(first + tutti::ptx::kWarp, threads.size()); ++i) {
    GpuThread& lane = *threads[i];
    if ((caller.mask >> lane_of(lane) & 1) == 0 || lane.fiber.ended()) continue;
    if (lane.state != ThreadState::AtWarp) return false;
    if (lane.call != caller.call || lane.mask != caller.mask) return false;
    lanes.push_back(&lane);
  }
  uint64_t values[tutti::ptx::kWarp] = {};
  uint32_t votes = 0;
  for (GpuThread* lane : lanes) {
    values[lane_of(*lane)] = lane->value;
    if (lane->value != 0) votes |= 1U << lane_of(*lane);
  }
  for (GpuThread* lane : lanes) {
    lane->value = caller.call == WarpCall::Shuffle ? values[lane->from_lane] : votes;
    if (lane != &caller) caller.block.grid.machine->make_runnable(*lane);
  }
  return true;
}

}  // namespace

void thread_ended(GpuThread& thread) {
  Block& block = thread.block;
  if (block.arrived != 0 && block.arrived == block.live) release_barrier(block);
  for (auto& other : block.threads) {
    if (other->state != ThreadState::AtWarp || !release_lanes(*other)) continue;
    block.grid.machine->make_runnable(*other);
  }
}

const tutti::ptx::host::BlockRuntime& block_runtime() {
  static const tutti::ptx::host::BlockRuntime kRuntime{sync_block,  sync_block_or, sync_warp, shuffle,
                                                       ballot,      pause,         step,      trap,
                                                       count_fence, count_moved,   shared,    multicast};
  return kRuntime;
}

}  // namespace fake

/// How many fences of the system, or else of one device alone, kernels have made.
extern "C" uint64_t fake_cuda_fences(int of_system) {
  return of_system != 0 ? fake::fences_of_system : fake::fences_of_device;
}

/// With FAKE_CUDA_COUNT: bytes that kernels of the device `by` have loaded from the memory of the device `of`, or have
/// stored there, by accesses of 16 bytes.
extern "C" uint64_t fake_cuda_bytes(int by, int of, int stored) {
  return fake::moved_bytes[stored != 0 ? 1 : 0][by][of];
}
