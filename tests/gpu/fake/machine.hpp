// The multiprocessors of one GPU: which blocks are resident, and whose turn it is.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "grid.hpp"

namespace fake {

/// Random numbers from FAKE_CUDA_SEED.
class Random {
 public:
  explicit Random(uint64_t stream);
  uint64_t next();

 private:
  uint64_t state_;
};

class Machine {
 public:
  Machine(int device, uint32_t multiprocessors);

  /// Its blocks become resident after those of the grids launched before.
  void launch(Grid* grid);
  bool busy() const { return !grids_.empty(); }
  bool runnable() const { return !runnable_.empty(); }
  /// Lets threads run, in random order, until all that can run poll, or `turns` turns are over. Whether one made
  /// progress.
  bool run(uint32_t turns);
  /// Drops all grids where they stand.
  void kill();

  int device() const { return device_; }
  uint64_t random() { return random_.next(); }
  void make_runnable(GpuThread& thread);
  void stop_running(GpuThread& thread);

  /// The thread that runs now.
  static GpuThread* current;
  /// The fault of the last run(): its code (CUresult, 0: none), where it was, and the address that was accessed.
  static int fault_code;
  static std::string fault_text;
  static const void* fault_address;
  /// Threads are there, but none will ever run: they wait for each other in different places.
  bool stuck() const { return runnable_.empty() && !grids_.empty() && !grids_.front()->resident.empty(); }

 private:
  struct Used {
    uint32_t threads = 0, blocks = 0, registers = 0;
    size_t shared = 0;
  };
  void fill();
  bool place(Grid& grid);
  void turn(GpuThread& thread);
  void ended(GpuThread& thread);
  void take(Grid& grid, uint32_t multiprocessor, int sign);

  const int device_;
  uint64_t launches_ = 0;
  Random random_;
  std::vector<Used> used_;
  std::deque<Grid*> grids_;  ///< in the order of their launches
  std::vector<GpuThread*> runnable_;
};

}  // namespace fake
