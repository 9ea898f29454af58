// How many fences a call makes, counted with the stand-in: each is a MEMBAR of the system, which waits until all stores
// of the multiprocessor have arrived. One for each instruction that publishes, none for a lane that nobody watches.
#include <dlfcn.h>

#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

uint64_t fences(bool of_system) {
  const auto count = reinterpret_cast<uint64_t (*)(int)>(::dlsym(RTLD_DEFAULT, "fake_cuda_fences"));
  return count == nullptr ? 0 : count(of_system ? 1 : 0);
}

/// With TUTTI_ALGO=all_reduce:two_shot, TUTTI_METHOD=slots, and one round by one block: a rank sends a part to each
/// peer, then its sum to all. (Without that, each descriptor, credit and step of progress had its own: some 43.)
TEST(Fences, OfTwoShotAreTwoABlockAndRound) {
  constexpr int kRanks = 8, kCalls = 10, kFences = 2;
  constexpr size_t kCount = 8000;
  use_gpu(0);
  std::vector<std::unique_ptr<GpuBuffer>> buffers;
  for (int rank = 0; rank < kRanks; ++rank) buffers.push_back(std::make_unique<GpuBuffer>(kCount * 4));
  uint64_t system = 0, device = 0;
  with_ranks(kRanks, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuStream stream;
    void* const data = buffers[static_cast<size_t>(rank)]->get();
    const auto call = [&] {
      ASSERT_EQ(tuttiAllReduce(data, data, kCount, tuttiFloat32, tuttiMax, comm, stream.handle()), tuttiSuccess)
          << tuttiGetLastError();
    };
    call();
    stream.synchronize();
    tuttiCallInfo info{};
    info.size = sizeof info;
    EXPECT_EQ(tuttiCommGetLastCall(comm, &info), tuttiSuccess);
    EXPECT_STREQ(info.algorithm, "two_shot");
    EXPECT_STREQ(info.delivery, "pushed");
    meet();
    if (rank == 0) system = fences(true), device = fences(false);
    meet();
    for (int i = 0; i < kCalls; ++i) call();
    stream.synchronize();
    meet();
  });
  if (::dlsym(RTLD_DEFAULT, "fake_cuda_fences") == nullptr) GTEST_SKIP() << "a real driver counts no fences";
  system = fences(true) - system;
  device = fences(false) - device;
  EXPECT_EQ(system, uint64_t{kFences} * kRanks * kCalls);
  EXPECT_EQ(device, 0U) << "nobody watches the only lane";
}

}  // namespace
}  // namespace tutti
