// A launched kernel: a grid of blocks of threads. Each thread is a fiber.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/cuda/device.hpp"
#include "fiber.hpp"

namespace fake {

using tutti::ptx::host::Twin;
struct Block;
struct Grid;
class Machine;

enum class ThreadState { Runnable, AtBarrier, AtWarp };
/// Why a thread gave up its turn.
enum class Turn { Progress, Polled };

/// What the lanes of a warp do together.
enum class WarpCall : uint32_t { None, Sync, Shuffle, Ballot };

struct GpuThread {
  GpuThread(Block& block, uint32_t index);
  ~GpuThread();
  GpuThread(const GpuThread&) = delete;
  GpuThread& operator=(const GpuThread&) = delete;

  Block& block;
  tutti::ptx::host::Thread place;
  ThreadState state = ThreadState::Runnable;
  Turn turn = Turn::Progress;
  uint32_t steps_left = 0;  ///< accesses until the next change of thread
  size_t runnable_at = 0;   ///< its index among the device's runnable threads
  WarpCall call = WarpCall::None;
  uint32_t mask = 0;  ///< of the call
  uint32_t from_lane = 0;
  uint64_t value = 0;  ///< given to the call, then its result
  Fiber fiber;         ///< last: it refers to the others
};

struct SharedVariable {
  std::atomic<const void*> key{nullptr};
  std::atomic<void*> at{nullptr};
};

struct Block {
  Block(Grid& grid, uint32_t index);

  Grid& grid;
  const uint32_t index;
  uint32_t multiprocessor = 0;
  uint32_t live = 0, arrived = 0;  ///< threads that have not ended; that wait at the barrier
  bool any = false, any_result = false;
  std::unique_ptr<unsigned char[]> dynamic_shared;
  SharedVariable shared[64];
  std::unique_ptr<unsigned char[]> static_shared;
  std::atomic<size_t> static_shared_used{0};
  std::vector<std::unique_ptr<GpuThread>> threads;
};

struct Grid {
  Grid() = default;
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;
  ~Grid();

  std::shared_ptr<FiberPool> fibers;
  std::vector<FiberPool::Item> used_fibers;  ///< of threads that have ended; another block is not ordered after them
  const Twin* twin = nullptr;
  Machine* machine = nullptr;
  int device = 0;
  uint32_t first_multiprocessor = 0, multiprocessors = 0;  ///< where its blocks may run; 0: everywhere
  uint32_t blocks = 1, threads = 1;
  size_t dynamic_shared = 0;
  uint64_t order = 0;  ///< of its launch
  std::vector<unsigned char> parameters;
  std::vector<uint32_t> waiting;  ///< blocks that have not started; the last is the next
  std::vector<std::unique_ptr<Block>> resident;
  uint32_t ended = 0;
  int injected = 0;          ///< a CUresult: one of its accesses fails with it
  uint32_t fails_after = 0;  ///< accesses
  bool faulted = false;
  char tsan_start = 0, tsan_end = 0;  ///< to ThreadSanitizer: what is before the launch; what is after its end

  bool done() const { return ended == blocks || faulted; }
  void* parameter_memory();  ///< aligned as the twin wants it

 private:
  std::unique_ptr<unsigned char[]> aligned_;
};

/// How many blocks of such a grid one multiprocessor holds at a time.
struct Occupancy {
  static constexpr uint32_t kThreads = 2048, kBlocks = 32, kRegisters = 65536;
  static constexpr uint32_t kShared = 228 << 10, kSharedOfBlock = 227 << 10, kReserved = 1 << 10;
  static uint32_t registers(const Twin& twin);  ///< a thread has, assumed
  static uint32_t blocks(const Twin& twin, uint32_t threads, size_t dynamic_shared);
};

/// The runtime that twins call.
const tutti::ptx::host::BlockRuntime& block_runtime();

/// After the end of a thread: lets those run that waited for it.
void thread_ended(GpuThread& thread);

/// Ends the running thread, and the context, with a fault (a CUresult). Called on a fiber.
[[noreturn]] void fault(int code, std::string_view what);

}  // namespace fake
