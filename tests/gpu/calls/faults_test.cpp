// GPUs that fail, as FAKE_CUDA_INJECT says: each test runs alone, on a stand-in that fails so. Every rank's stream ends
// within a second, and the communicator says which GPU has failed, and for what the other ranks' calls waited.
#include <array>
#include <chrono>
#include <thread>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCount = 100000;

/// How a rank's calls ended.
struct End {
  Clock::time_point at;
  std::string text;
};

/// Two ranks, each with the GPU of its number, or both with GPU 0, make calls until one fails.
std::array<End, 2> call_until_it_fails(bool one_gpu) {
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  std::array<End, 2> ends;
  run_ranks(2, [&](int rank) {
    use_gpu(one_gpu ? 0 : rank);
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitRank(&comm, 2, id, rank), tuttiSuccess) << tuttiGetLastError();
    const GpuBuffer in(kCount * 4), out(kCount * 4);
    const GpuStream stream;
    meet();
    tuttiResult_t result = tuttiSuccess;
    while (result == tuttiSuccess) {
      if (tuttiAllReduce(in.get(), out.get(), kCount, tuttiFloat32, tuttiSum, comm, stream.handle()) != tuttiSuccess)
        break;
      if (cuStreamSynchronize(stream.get()) != CUDA_SUCCESS) break;
      ASSERT_EQ(tuttiCommGetAsyncError(comm, &result), tuttiSuccess);
    }
    End& end = ends[static_cast<size_t>(rank)];
    end.at = Clock::now();
    while (tuttiCommGetAsyncError(comm, &result) == tuttiSuccess && result == tuttiSuccess) std::this_thread::yield();
    EXPECT_EQ(result, tuttiSystemError);
    end.text = tuttiCommGetErrorText(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSystemError);
  });
  return ends;
}

double seconds_between(const std::array<End, 2>& ends) {
  return std::abs(std::chrono::duration<double>(ends[0].at - ends[1].at).count());
}

/// FAKE_CUDA_INJECT=ecc@0:3 or fault@0:3: the third kernel of GPU 0 does not end well.
TEST(DeviceFaults, AFaultInACallEndsItOnAllRanks) {
  const std::array<End, 2> ends = call_until_it_fails(false);
  EXPECT_LT(seconds_between(ends), kStreamsEndWithin);
  for (const End& end : ends) {
    expect_contains(end.text, "rank 0: GPU 0 (Fake H200) has failed: CUDA_ERROR_");
    expect_contains(end.text, "all_reduce(count=100000, f32, sum), call 3");
  }
  if (!kBlocksReport || ends[1].text.starts_with("rank 1: rank 0: ")) return;  // it had no call yet
  expect_contains(ends[1].text, "the call waited for rank 0 (");
  expect_contains(ends[1].text, " at lane 0, step ");
}

TEST(DeviceFaults, AFaultOfAGpuThatRanksShareIsToldOfOneOfThem) {
  const std::array<End, 2> ends = call_until_it_fails(true);
  for (const End& end : ends) expect_contains(end.text, "GPU 0 (Fake H200) has failed: CUDA_ERROR_");
}

/// FAKE_CUDA_INJECT=launch@0:3
TEST(DeviceFaults, AFailedLaunchEndsTheCallOnAllRanks) {
  const std::array<End, 2> ends = call_until_it_fails(false);
  EXPECT_LT(seconds_between(ends), kStreamsEndWithin);
  for (const End& end : ends) {
    expect_contains(end.text, "rank 0: all_reduce(count=100000, f32, sum): the kernel cannot be launched: CUDA_ERROR_");
  }
}

/// FAKE_CUDA_INJECT=no_memory@0:1: calls on device memory are refused, by all ranks; others go on.
TEST(DeviceFaults, NoMemoryForLinksIsToldAtTheCall) {
  use_gpu(0);
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    use_gpu(rank);
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitRank(&comm, 2, id, rank), tuttiSuccess) << tuttiGetLastError();
    const GpuBuffer buffer(64);
    EXPECT_EQ(tuttiAllReduce(buffer.get(), buffer.get(), 8, tuttiFloat32, tuttiSum, comm, nullptr), tuttiUnsupported);
    expect_contains(tuttiGetLastError(),
                    "rank 0 cannot make them: memory for links on the GPU: CUDA_ERROR_OUT_OF_MEMORY");
    std::vector<float> in(8, 1), out(8);
    EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 8, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(out[7], 2);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
  });
}

}  // namespace
}  // namespace tutti
