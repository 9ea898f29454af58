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
      meet();
      for (int i = 0; i < kCalls; ++i) graph.launch(stream);
      stream.synchronize();
    } else {
      meet();
      for (int i = 0; i < kCalls; ++i) call();
      stream.synchronize();
    }
    expect_all(out, 3);
  });
}

/// A replay after the communicator's end does nothing, also when a later communicator has taken over what was free.
TEST(DeviceGraphs, OutliveTheirCommunicator) {
  use_gpu(0);
  struct Rank {
    GpuBuffer in{kCount * 4}, out{kCount * 4};
    GpuStream stream;
    std::optional<Graph> graph;
  };
  std::vector<Rank> ranks(2);
  const auto call = [&](Rank& own, tuttiComm_t comm) {
    EXPECT_EQ(tuttiAllReduce(own.in.get(), own.out.get(), kCount, tuttiFloat32, tuttiSum, comm, own.stream.handle()),
              tuttiSuccess)
        << tuttiGetLastError();
  };
  with_ranks(2, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    Rank& own = ranks[static_cast<size_t>(rank)];
    own.in.set(std::vector<float>(kCount, 1.0F));
    own.graph.emplace(own.stream, [&] { call(own, comm); });
    meet();
    own.graph->launch(own.stream);
    own.stream.synchronize();
    expect_all(own.out, 2);
  });
  // All ranks launch theirs, so a call that went on would not wait for ever: it must not even begin.
  for (Rank& own : ranks) own.out.set(std::vector<float>(kCount, -1.0F));
  for (Rank& own : ranks) own.graph->launch(own.stream);
  for (Rank& own : ranks) {
    own.stream.synchronize();
    expect_all(own.out, -1);
  }
  with_ranks(2, [&](int rank, tuttiComm_t comm) {
    use_gpu(0);
    Rank& own = ranks[static_cast<size_t>(rank)];
    for (int turn = 0; turn < 3; ++turn) {
      own.graph->launch(own.stream);
      own.stream.synchronize();  // it ends, though the other rank may not have launched its own
      call(own, comm);
      own.stream.synchronize();
      expect_all(own.out, 2);
    }
  });
}

}  // namespace
}  // namespace tutti
