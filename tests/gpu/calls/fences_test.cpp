// How many fences a call makes, counted with the stand-in: each is a MEMBAR of the system, which waits until all stores
// of the multiprocessor have arrived. fences_test.py holds the number against what the cost model charges.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

uint64_t fences(bool of_system) {
  const auto count = reinterpret_cast<uint64_t (*)(int)>(::dlsym(RTLD_DEFAULT, "fake_cuda_fences"));
  return count == nullptr ? 0 : count(of_system ? 1 : 0);
}

/// With TUTTI_MAX_BLOCKS=1, so that a call has one block; in one round. Of 8 ranks: a rank's mean, and by whom.
TEST(Fences, OfACall) {
  constexpr int kRanks = 8, kCalls = 10;
  constexpr size_t kCount = 8000;
  use_gpu(0);
  std::vector<std::unique_ptr<GpuBuffer>> ins, outs;
  for (int rank = 0; rank < kRanks; ++rank) {
    ins.push_back(std::make_unique<GpuBuffer>(kCount * 4));
    outs.push_back(std::make_unique<GpuBuffer>(kCount * 4));
  }
  uint64_t system = 0, device = 0;
  tuttiCallInfo info{};
  with_ranks(kRanks, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuStream stream;
    const auto i = static_cast<size_t>(rank);
    const auto call = [&] {
      ASSERT_EQ(tuttiAllReduce(ins[i]->get(), outs[i]->get(), kCount, tuttiFloat32, tuttiMax, comm, stream.handle()),
                tuttiSuccess)
          << tuttiGetLastError();
    };
    call();
    stream.synchronize();
    meet();
    if (rank == 0) {
      info.size = sizeof info;
      EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess);
      system = fences(true), device = fences(false);
    }
    meet();
    for (int n = 0; n < kCalls; ++n) call();
    stream.synchronize();
    meet();
  });
  if (::dlsym(RTLD_DEFAULT, "fake_cuda_fences") == nullptr) GTEST_SKIP() << "a real driver counts no fences";
  EXPECT_EQ(info.width, 1U);
  std::printf("FENCES %s %s %.3f %.3f\n", info.algorithm, info.method,
              static_cast<double>(fences(true) - system) / (kRanks * kCalls),
              static_cast<double>(fences(false) - device) / (kRanks * kCalls));
}

}  // namespace
}  // namespace tutti
