// Graphs: captured calls are numbered when they run, so ranks may replay them or call, as they like.
#include <functional>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kCount = 1000;

void expect_all(const GpuBuffer& buffer, float expected) {
  EXPECT_EQ(buffer.floats(kCount), std::vector<float>(kCount, expected));
}

/// The first call of its kind is captured: what it needs is made while the stream is captured.
TEST(DeviceGraphs, OneRankReplaysWhileAnotherCalls) {
  use_gpu(0);
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuBuffer in(kCount * 4), out(kCount * 4);
    in.set(std::vector<float>(kCount, rank == 0 ? 1.0F : 2.0F));
    const GpuStream stream;
    const auto call = [&] {
      EXPECT_EQ(tuttiAllReduce(in.get(), out.get(), kCount, tuttiFloat32, tuttiSum, comm, stream.handle()),
                tuttiSuccess)
          << tuttiGetLastError();
    };
    constexpr int kCalls = 20;
    if (rank == 0) {
      const Graph graph(stream, call);
      for (int i = 0; i < kCalls; ++i) graph.launch(stream);
      stream.synchronize();
    } else {
      for (int i = 0; i < kCalls; ++i) call();
      stream.synchronize();
    }
    expect_all(out, 3);
  });
}

}  // namespace
}  // namespace tutti
