// Memory of a GPU: how much a communicator takes, and that what captured calls need is given back with their graphs.
#include <barrier>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

size_t free_bytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

/// With every collective, short and long, also where all ranks are threads that share a GPU.
TEST(DeviceMemoryUse, ACommunicatorTakesLessThan32MiB) {
  use_gpu(0);
  constexpr size_t kCount = 1 << 20, kLimit = 32 << 20;
  for (const int ranks : {2, 4}) {
    std::vector<std::unique_ptr<GpuBuffer>> ins, outs;
    for (int rank = 0; rank < ranks; ++rank) {
      ins.push_back(std::make_unique<GpuBuffer>(kCount * 4));
      outs.push_back(std::make_unique<GpuBuffer>(kCount * 4));
    }
    const GpuStream streams[4];
    const size_t before = free_bytes();
    size_t least = before;
    with_ranks(ranks, [&](int rank, tuttiComm_t comm) {
      use_gpu(0);
      const auto i = static_cast<size_t>(rank);
      void *const in = ins[i]->get(), *const out = outs[i]->get();
      const tuttiStream_t stream = streams[i].handle();
      for (const size_t count : {size_t{2}, size_t{3000}, kCount / static_cast<size_t>(ranks)}) {
        EXPECT_EQ(tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiAllGather(in, out, count, tuttiFloat32, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiReduceScatter(in, out, count, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiAllToAll(in, out, count, tuttiFloat32, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiBroadcast(in, out, count, tuttiFloat32, 0, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiReduce(in, out, count, tuttiFloat32, tuttiSum, 1, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiGather(in, out, count, tuttiFloat32, 0, comm, stream), tuttiSuccess);
        EXPECT_EQ(tuttiScatter(in, out, count, tuttiFloat32, 1, comm, stream), tuttiSuccess);
      }
      streams[i].synchronize();
      if (rank == 0) least = free_bytes();  // nothing is given back before the ranks leave
    });
    const size_t each = (before - least) / static_cast<size_t>(ranks);
    RecordProperty("bytes_of_a_rank_" + std::to_string(ranks), std::to_string(each));
    EXPECT_LT(each, kLimit) << ranks << " ranks";
    std::cout << ranks << " ranks: " << each / 1024 << " KiB each\n";
  }
}

/// What a captured call needs lives as long as its graph, and is used again afterwards.
TEST(DeviceMemoryUse, OfCapturedCallsEndsWithTheirGraphs) {
  use_gpu(0);
  // A captured call's program is written on a stream of the library's, which may share a hardware queue with a kernel
  // that waits for this very rank, since the ranks share a GPU: so both capture before either launches.
  std::barrier both(2);
  with_ranks(2, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuBuffer in(4000), out(4000);
    const GpuStream stream;
    const auto capture_and_run = [&] {  // transfers are compiled at each call
      const Graph graph(stream, [&] {
        ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
        for (size_t part = 0; part < 10; ++part) {  // so the program has some length
          const tuttiStream_t on = stream.handle();
          EXPECT_EQ(tuttiSend(in.get() + 400 * part, 100, tuttiFloat32, 1 - rank, comm, on), tuttiSuccess);
          EXPECT_EQ(tuttiRecv(out.get() + 400 * part, 100, tuttiFloat32, 1 - rank, comm, on), tuttiSuccess);
        }
        ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
      });
      both.arrive_and_wait();
      graph.launch(stream);
      stream.synchronize();
    };
    for (int i = 0; i < 20; ++i) capture_and_run();
    const size_t before = free_bytes();
    for (int i = 0; i < 300; ++i) capture_and_run();
    EXPECT_GT(free_bytes() + (1 << 20), before) << "it grows with the number of graphs";
  });
}

/// For tools/gpu_check, in a process of its own: the kernels are loaded too.
TEST(DeviceMemoryUse, CreationOfFourRanks) {
  use_gpu(0);
  const auto begin = std::chrono::steady_clock::now();
  tuttiComm_t comms[4];
  ASSERT_EQ(tuttiCommInitAll(comms, 4), tuttiSuccess) << tuttiGetLastError();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << "creation of 4 ranks: " << seconds.count() << " s\n";
  run_ranks(4, [&](int rank) { EXPECT_EQ(tuttiCommDestroy(comms[rank]), tuttiSuccess) << tuttiGetLastError(); });
}

}  // namespace
}  // namespace tutti
