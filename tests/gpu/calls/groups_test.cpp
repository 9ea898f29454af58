// Vector calls and groups of transfers on device memory: blocks whose sizes only their two ends know.
#include <memory>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr int kRanks = 3;

/// count[r] elements of rank r: 5, 10, 15.
std::vector<size_t> counts() { return {5, 10, 15}; }

std::vector<float> repeated(float value, size_t count) { return std::vector<float>(count, value); }

std::vector<float> joined(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Ranks share a device. Freeing memory waits for all its kernels, also other ranks', so a rank's body has one call.
class DeviceGroups : public testing::Test {
 protected:
  static void each_rank(const std::function<void(int rank, tuttiComm_t comm, const GpuStream& stream)>& body) {
    use_gpu(0);
    with_ranks(kRanks, [&](int rank, tuttiComm_t comm) {
      use_gpu(0);
      const GpuStream stream;
      body(rank, comm, stream);
    });
  }
};

TEST_F(DeviceGroups, AllGatherV) {
  each_rank([](int rank, tuttiComm_t comm, const GpuStream& stream) {
    const size_t mine = counts()[static_cast<size_t>(rank)];
    const GpuBuffer in(mine * 4), out(30 * 4);
    in.set(repeated(static_cast<float>(rank), mine));
    meet();
    ASSERT_EQ(tuttiAllGatherV(in.get(), mine, out.get(), counts().data(), nullptr, tuttiFloat32, comm, stream.handle()),
              tuttiSuccess)
        << tuttiGetLastError();
    stream.synchronize();
    EXPECT_EQ(out.floats(30), joined({repeated(0, 5), repeated(1, 10), repeated(2, 15)}));
  });
}

/// Of GPU calls the prices are those of the GPU's methods, and of the method that runs.
TEST_F(DeviceGroups, AreEstimatedByTheModelOfTheirDevice) {
  each_rank([](int, tuttiComm_t comm, const GpuStream& stream) {
    constexpr size_t kCount = 1 << 18;
    const GpuBuffer in(kCount * 4), out(kCount * 4);
    meet();
    const auto call = [&] {
      ASSERT_TUTTI(tuttiAllReduce(in.get(), out.get(), kCount, tuttiFloat32, tuttiSum, comm, stream.handle()));
    };
    double seconds = 0;
    ASSERT_TUTTI(tuttiGroupStart());
    call();
    ASSERT_TUTTI(tuttiGroupEstimate(&seconds));
    ASSERT_TUTTI(tuttiGroupDiscard());
    call();
    stream.synchronize();
    tuttiCallInfo info{};
    info.size = sizeof info;
    ASSERT_TUTTI(tuttiCommGetLastCall(comm, &info));
    EXPECT_STRNE(info.method, "lanes");
    EXPECT_GT(seconds, 1e-6);
    EXPECT_DOUBLE_EQ(info.model, seconds);
  });
}

TEST_F(DeviceGroups, ReduceScatterV) {
  each_rank([](int rank, tuttiComm_t comm, const GpuStream& stream) {
    const size_t mine = counts()[static_cast<size_t>(rank)];
    const GpuBuffer in(30 * 4), out(mine * 4);
    in.set(joined({repeated(1, 5), repeated(2, 10), repeated(3, 15)}));
    meet();
    ASSERT_EQ(tuttiReduceScatterV(in.get(), out.get(), counts().data(), tuttiFloat32, tuttiSum, comm, stream.handle()),
              tuttiSuccess)
        << tuttiGetLastError();
    stream.synchronize();
    EXPECT_EQ(out.floats(mine), repeated(static_cast<float>(kRanks * (rank + 1)), mine));
  });
}

TEST_F(DeviceGroups, SendsAndReceivesToAllAndToItself) {
  each_rank([](int rank, tuttiComm_t comm, const GpuStream& stream) {
    constexpr size_t kCount = 3000;
    const GpuBuffer in(kCount * 4), out(kRanks * kCount * 4);
    in.set(repeated(static_cast<float>(rank + 1), kCount));
    meet();
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_EQ(tuttiSend(in.get(), kCount, tuttiFloat32, peer, comm, stream.handle()), tuttiSuccess);
      EXPECT_EQ(tuttiRecv(out.get() + static_cast<size_t>(peer) * kCount * 4, kCount, tuttiFloat32, peer, comm,
                          stream.handle()),
                tuttiSuccess);
    }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    stream.synchronize();
    EXPECT_EQ(out.floats(kRanks * kCount), joined({repeated(1, kCount), repeated(2, kCount), repeated(3, kCount)}));
  });
}

/// With TUTTI_MAX_BLOCKS=2 the short calls fit the blocks' shared memory and the long ones, of more replicas, do not:
/// both run one program.
TEST_F(DeviceGroups, ShortAndLongTransfersInTurn) {
  constexpr int kMany = 20;
  use_gpu(0);
  with_ranks(kMany, [](int rank, tuttiComm_t comm) {
    use_gpu(0);
    const GpuStream stream;
    constexpr size_t kMost = 40000;
    const std::vector<size_t> counts = {2, kMost, 2, kMost, 3};
    const auto value = [](size_t turn, int of) { return static_cast<float>(100 * turn + static_cast<size_t>(of)); };
    std::vector<std::unique_ptr<GpuBuffer>> ins, outs;
    for (size_t turn = 0; turn < counts.size(); ++turn) {
      ins.push_back(std::make_unique<GpuBuffer>(counts[turn] * 4));
      outs.push_back(std::make_unique<GpuBuffer>(kMany * counts[turn] * 4));
      ins[turn]->set(repeated(value(turn, rank), counts[turn]));
    }
    meet();  // copies by the default stream wait for all kernels
    for (size_t turn = 0; turn < counts.size(); ++turn) {
      const size_t count = counts[turn];
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      for (int peer = 0; peer < kMany; ++peer) {
        unsigned char* const to = outs[turn]->get() + static_cast<size_t>(peer) * count * 4;
        EXPECT_EQ(tuttiSend(ins[turn]->get(), count, tuttiFloat32, peer, comm, stream.handle()), tuttiSuccess);
        EXPECT_EQ(tuttiRecv(to, count, tuttiFloat32, peer, comm, stream.handle()), tuttiSuccess);
      }
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    }
    stream.synchronize();
    meet();
    for (size_t turn = 0; turn < counts.size(); ++turn) {
      std::vector<float> wanted;
      for (int peer = 0; peer < kMany; ++peer) wanted.insert(wanted.end(), counts[turn], value(turn, peer));
      EXPECT_TRUE(outs[turn]->floats(kMany * counts[turn]) == wanted) << "rank " << rank << ", call " << turn;
    }
  });
}

TEST_F(DeviceGroups, StreamsOfOneCommunicatorAreOrdered) {
  use_gpu(0);
  with_ranks(kRanks, [](int, tuttiComm_t comm) {
    use_gpu(0);
    const GpuStream first, second;
    const GpuBuffer data(1000 * 4);
    data.set(repeated(1, 1000));
    meet();
    for (const GpuStream* stream : {&first, &second, &first}) {
      ASSERT_EQ(tuttiAllReduce(data.get(), data.get(), 1000, tuttiFloat32, tuttiSum, comm, stream->handle()),
                tuttiSuccess)
          << tuttiGetLastError();
    }
    first.synchronize();
    EXPECT_EQ(data.floats(1000), repeated(27, 1000));
  });
}

}  // namespace
}  // namespace tutti
