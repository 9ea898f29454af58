// Communicators on GPUs that are suspended: their memory there is free meanwhile, calls afterwards are right, and what
// would run on memory that is gone makes all ranks refuse. A job of two ranks: `tutti run -n 2 -- …`.
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr size_t kCount = 300000;

class Suspended : public testing::Test {
 protected:
  Suspended() {
    rank_ = std::atoi(std::getenv("TUTTI_RANK"));
    use_gpu(rank_ % count_gpus());
    stream_.emplace();
    EXPECT_EQ(tuttiCommInitEnv(&comm_), tuttiSuccess) << tuttiGetLastError();
  }
  ~Suspended() override { EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess) << tuttiGetLastError(); }

  const cuda::Device& device() const { return cuda::Device::get(rank_ % count_gpus()); }
  CUdeviceptr at(const GpuBuffer& buffer) const { return reinterpret_cast<CUdeviceptr>(buffer.get()); }
  void set(const GpuBuffer& to, float value) const {
    const std::vector<float> values(kCount, value);
    device().stream().upload(at(to), values.data(), kCount * 4);
  }
  void expect_values(const GpuBuffer& of, float value) const {
    std::vector<float> values(kCount);
    device().stream().download(values.data(), at(of), kCount * 4);
    EXPECT_EQ(values, std::vector<float>(kCount, value));
  }
  void enqueue(const GpuBuffer& in, const GpuBuffer& out, size_t count = kCount) const {
    ASSERT_TUTTI(tuttiAllReduce(in.get(), out.get(), count, tuttiFloat32, tuttiSum, comm_, stream_->handle()));
  }
  static size_t free_memory() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    return free;
  }
  /// Of both ranks, which may share the GPU; the other one is not ahead.
  void meet() const {
    int one = 1, sum = 0;
    ASSERT_TUTTI(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm_, nullptr));
  }
  void expect_refused(const char* why) const {
    EXPECT_EQ(tuttiCommSuspend(comm_), tuttiInvalidUsage);
    EXPECT_NE(std::string(tuttiGetLastError()).find(why), std::string::npos) << tuttiGetLastError();
  }

  int rank_ = 0;
  std::optional<GpuStream> stream_;
  tuttiComm_t comm_ = nullptr;
};

TEST_F(Suspended, MemoryOfTheGpuIsFreeMeanwhile) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  size_t live = 0, suspended = 0;
  for (int cycle = 0; cycle < 4; ++cycle) {
    set(in, static_cast<float>(rank_ + cycle));
    set(out, -1);
    for (const size_t count : {size_t{1}, size_t{3000}, kCount}) enqueue(in, out, count);
    ASSERT_TUTTI(tuttiCommSuspend(comm_));  // it waits for what is on the stream
    expect_values(out, static_cast<float>(1 + 2 * cycle));
    EXPECT_EQ(tuttiAllReduce(in.get(), out.get(), 1, tuttiFloat32, tuttiSum, comm_, stream_->handle()),
              tuttiInvalidUsage);
    const size_t now = free_memory();
    if (cycle == 0) suspended = now;
    EXPECT_EQ(now, suspended) << "cycle " << cycle;
    ASSERT_TUTTI(tuttiCommResume(comm_));
    enqueue(in, out);
    stream_->synchronize();
    meet();
    if (cycle == 0) live = free_memory();
    EXPECT_EQ(free_memory(), live) << "cycle " << cycle;
    EXPECT_GT(now, live) << "cycle " << cycle;
    meet();
  }
  RecordProperty("freed", std::to_string(suspended - live));
}

TEST_F(Suspended, RegisteredBuffersOfOneRankMakeAllRefuse) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  set(in, 1);
  uint64_t registration = 0;
  enqueue(in, out);
  stream_->synchronize();
  meet();
  if (rank_ == 1) {
    ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration));
  }
  meet();
  expect_refused("rank 1 cannot: it has registered 1 buffer, number 1: tuttiCommDeregister comes first");
  enqueue(in, out);
  if (rank_ == 1) {
    ASSERT_TUTTI(tuttiCommDeregister(comm_, registration));
  }
  ASSERT_TUTTI(tuttiCommSuspend(comm_));
  expect_values(out, 2);
  EXPECT_EQ(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration), tuttiInvalidUsage);
  ASSERT_TUTTI(tuttiCommResume(comm_));
  ASSERT_TUTTI(tuttiCommRegister(comm_, in.get(), kCount * 4, &registration));
  enqueue(in, out);
  stream_->synchronize();
  expect_values(out, 2);
  ASSERT_TUTTI(tuttiCommDeregister(comm_, registration));
}

TEST_F(Suspended, CapturedCallsMakeAllRefuse) {
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  set(in, 1);
  const Graph graph(*stream_, [&] { enqueue(in, out); });
  expect_refused("were captured in graphs, which would run on what is freed");
  graph.launch(*stream_);
  stream_->synchronize();
  expect_values(out, 2);
}

}  // namespace
}  // namespace tutti
