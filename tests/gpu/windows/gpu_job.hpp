// A job of ranks with windows in memory of GPUs: this process is one rank of those that a launcher has started, or has
// all as threads.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "calls/gpu_program.hpp"
#include "support/thread_ranks.hpp"
#include "transports/cuda/device.hpp"
#include "tutti/tutti.h"

namespace tutti::test {

inline void expect_ok(tuttiResult_t result, const char* call) {
  EXPECT_EQ(result, tuttiSuccess) << call << ": " << tuttiGetLastError();
}
#define OK(call) ::tutti::test::expect_ok(call, #call)
#define CUDA_OK(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))

/// A rank of the job, and its GPU.
struct Member {
  tuttiComm_t comm = nullptr;
  int rank = 0, ranks = 0, device = 0;

  int next() const { return (rank + 1) % ranks; }
  int previous() const { return (rank + ranks - 1) % ranks; }
  /// All ranks are here. Memory is allocated and freed before: that may wait for streams, and they for this rank.
  void meet() const { OK(tuttiBarrier(comm, nullptr)); }
};

inline bool is_process() { return std::getenv("TUTTI_RANK") != nullptr; }

/// The same in all processes that a launcher has started.
inline tuttiUniqueId common_id() {
  tuttiUniqueId id = {};
  if (std::atoi(std::getenv("TUTTI_RANK")) == 0) OK(tuttiGetUniqueId(&id));
  tuttiComm_t processes = nullptr;
  OK(tuttiCommInitEnv(&processes));
  OK(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, processes, nullptr));
  OK(tuttiCommDestroy(processes));
  return id;
}

/// Runs `body` as each rank that is in this process. `at_the_end`: of destroying its communicator.
inline void each_rank(const std::function<void(const Member&)>& body, int threads = 4,
                      tuttiResult_t at_the_end = tuttiSuccess, double timeout = 0) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout = timeout;
  const auto run = [&](Member me) {
    OK(tuttiCommUserRank(me.comm, &me.rank));
    OK(tuttiCommCount(me.comm, &me.ranks));
    body(me);
    EXPECT_EQ(tuttiCommDestroy(me.comm), at_the_end) << "rank " << me.rank << ": " << tuttiGetLastError();
  };
  Member me;
  const char* const own_threads = std::getenv("TEST_THREADS");  // of each process: a host with so many ranks
  if (is_process() && own_threads != nullptr) {
    const int first = std::atoi(std::getenv("TUTTI_RANK")) * std::atoi(own_threads);
    const tuttiUniqueId id = common_id();
    run_ranks(std::atoi(own_threads), [&](int thread) {
      Member mine{.device = (first + thread) % count_gpus()};
      use_gpu(mine.device);
      const int all = std::atoi(std::getenv("TUTTI_SIZE")) * std::atoi(own_threads);
      ASSERT_EQ(tuttiCommInitRankConfig(&mine.comm, all, id, first + thread, &config), tuttiSuccess)
          << tuttiGetLastError();
      run(mine);
    });
    return;
  }
  if (is_process()) {
    me.device = std::atoi(std::getenv("TUTTI_RANK")) % count_gpus();
    use_gpu(me.device);
    ASSERT_EQ(tuttiCommInitEnv(&me.comm), tuttiSuccess) << tuttiGetLastError();
    return run(me);
  }
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  const int devices = count_gpus();
  run_ranks(threads, [&](int rank) {
    Member mine{.device = rank % devices};
    use_gpu(mine.device);
    ASSERT_EQ(tuttiCommInitRankConfig(&mine.comm, threads, id, rank, &config), tuttiSuccess) << tuttiGetLastError();
    run(mine);
  });
}

using Bytes = std::vector<unsigned char>;

/// Each byte says whose it is, of which round, and where.
inline Bytes bytes_of(int rank, uint64_t round, size_t count) {
  Bytes all(count);
  for (size_t i = 0; i < count; ++i)
    all[i] = static_cast<unsigned char>(1 + (rank * 89 + round * 31 + i * 7 + i / 251) % 250);
  return all;
}

/// Memory of the rank's GPU.
class Memory {
 public:
  Memory(const Member& me, size_t bytes, unsigned char fill = 0xEE)
      : device_(cuda::Device::get(me.device)), buffer_(bytes), bytes_(bytes) {
    set(0, Bytes(bytes, fill));
  }
  void set(size_t at, const Bytes& bytes) const {
    if (!bytes.empty()) device_.stream().upload(address(at), bytes.data(), bytes.size());
  }
  Bytes get(size_t at, size_t count) const {
    Bytes got(count);
    if (count > 0) device_.stream().download(got.data(), address(at), count);
    return got;
  }
  Bytes all() const { return get(0, bytes_); }
  unsigned char* at(size_t offset = 0) const { return buffer_.get() + offset; }

 private:
  CUdeviceptr address(size_t at) const { return reinterpret_cast<CUdeviceptr>(buffer_.get() + at); }
  const cuda::Device& device_;
  const GpuBuffer buffer_;
  const size_t bytes_;
};

/// A window with a part of this rank's GPU, filled with 0xEE.
class Part {
 public:
  Part(const Member& me, size_t bytes) : memory(me, bytes), me_(me) {
    OK(tuttiWindowRegister(me.comm, memory.at(), bytes, &window));
  }
  ~Part() {
    if (window != nullptr) OK(tuttiWindowDeregister(window));
    me_.meet();  // then it is freed, …
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  const Memory memory;
  tuttiWindow_t window = nullptr;

 private:
  const Member me_;
};

/// Memory of the host that GPUs reach.
template <class T>
class Pinned {
 public:
  explicit Pinned(size_t count) {
    void* memory = nullptr;
    CUDA_OK(cuMemHostAlloc(&memory, count * sizeof(T), 0));
    data = static_cast<T*>(memory);
    std::fill_n(data, count, T());
  }
  ~Pinned() { cuMemFreeHost(data); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data = nullptr;
};

}  // namespace tutti::test
