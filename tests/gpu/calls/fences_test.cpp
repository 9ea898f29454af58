// How many fences a call makes, counted with the stand-in: each is a MEMBAR of the system, which waits until all stores of
// the multiprocessor have arrived. One for each instruction that publishes, none for a lane that nobody watches.
#include <dlfcn.h>

#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

uint64_t fences(bool of_system) {
  const auto count = reinterpret_cast<uint64_t (*)(int)>(::dlsym(RTLD_DEFAULT, "fake_cuda_fences"));
  return count == nullptr ? 0 : count(of_system ? 1 : 0);
}

/// FENCES_RANKS ranks, TUTTI_ALGO=all_reduce:two_shot, TUTTI_METHOD=slots: of one round, by one block.
TEST(Fences, OfTwoShotAreTwoABlockAndRound) {
  constexpr int kRanks = 8, kCalls = 10;
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
  if (fences(true) == 0) GTEST_SKIP() << "the driver is a real one";
  system = fences(true) - system;
  device = fences(false) - device;
  RecordProperty("fences_of_a_block_and_round", std::to_string(static_cast<double>(system) / (kRanks * kCalls)));
  EXPECT_LE(system, uint64_t{2} * kRanks * kCalls);
  EXPECT_GE(system, uint64_t{kRanks} * kCalls) << "a descriptor was published without one";
  EXPECT_EQ(device, 0U) << "nobody watches the only lane";
}

}  // namespace
}  // namespace tutti
