// Graphs: captured calls are numbered when they run, so ranks may replay them or call, as they like.
#include <functional>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kCount = 1000;

class Graph {
 public:
  Graph(const GpuStream& stream, const std::function<void()>& calls) {
    EXPECT_EQ(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    calls();
    EXPECT_EQ(cuStreamEndCapture(stream.get(), &graph_), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiate(&runnable_, graph_, 0), CUDA_SUCCESS);
  }
  ~Graph() {
    cuGraphExecDestroy(runnable_);
    cuGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(const GpuStream& stream) const { EXPECT_EQ(cuGraphLaunch(runnable_, stream.get()), CUDA_SUCCESS); }

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec runnable_ = nullptr;
};

void expect_all(const GpuBuffer& buffer, float expected) {
  std::vector<float> values(kCount);
  cuda::Device::get(0).stream().download(values.data(), reinterpret_cast<CUdeviceptr>(buffer.get()), kCount * 4);
  EXPECT_EQ(values, std::vector<float>(kCount, expected));
}

/// The first call of its kind is captured: what it needs is made while the stream is captured.
TEST(DeviceGraphs, OneRankReplaysWhileAnotherCalls) {
  use_gpu(0);
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuBuffer in(kCount * 4), out(kCount * 4);
    const std::vector<float> values(kCount, rank == 0 ? 1.0F : 2.0F);
    cuda::Device::get(0).stream().upload(reinterpret_cast<CUdeviceptr>(in.get()), values.data(), kCount * 4);
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
