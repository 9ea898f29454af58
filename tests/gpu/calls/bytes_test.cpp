// The bytes that a call moves, counted with the stand-in: over the links between GPUs, and to and from each GPU's
// memory. They are those of the closed form: nothing is moved twice. All ranks are threads, each with a GPU. A rank's
// buffers are registered, or not; the method is TUTTI_METHOD's.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

constexpr int kRanks = 4;
constexpr uint64_t kBlock = 512 << 10, kAll = kRanks * kBlock;  // bytes

using Count = uint64_t (*)(int by, int of, int stored);

/// Bytes of one GPU, in units of a block.
struct Moved {
  double from_peers = 0, to_peers = 0, loaded = 0, stored = 0;  ///< loaded, stored: of its own memory
  friend Moved operator-(const Moved& a, const Moved& b) {
    return {a.from_peers - b.from_peers, a.to_peers - b.to_peers, a.loaded - b.loaded, a.stored - b.stored};
  }
};

Moved moved(int gpu) {
  const auto count = reinterpret_cast<Count>(::dlsym(RTLD_DEFAULT, "fake_cuda_bytes"));
  Moved sums;
  for (int of = 0; count != nullptr && of < kRanks; ++of) {
    const double loads = static_cast<double>(count(gpu, of, 0)) / kBlock;
    const double stores = static_cast<double>(count(gpu, of, 1)) / kBlock;
    (of == gpu ? sums.loaded : sums.from_peers) += loads;
    (of == gpu ? sums.stored : sums.to_peers) += stores;
  }
  return sums;
}

bool by_get() {
  const char* const method = std::getenv("TUTTI_METHOD");
  return method != nullptr && std::string(method) == "get";
}

using Call =
    std::function<tuttiResult_t(const unsigned char* in, unsigned char* out, tuttiComm_t, tuttiStream_t stream)>;

/// What the rank's GPU moves in `call`. The second call counts: the first one makes the program.
Moved moved_in(const Call& call, bool registered, int rank, tuttiComm_t comm) {
  const GpuStream stream;
  const GpuBuffer in(kAll), out(kAll);
  meet();
  for (const GpuBuffer* buffer : {&in, &out}) {
    uint64_t registration = 0;
    if (!registered) continue;
    EXPECT_EQ(tuttiCommRegister(comm, buffer->get(), kAll, &registration), tuttiSuccess) << tuttiGetLastError();
  }
  Moved result;
  for (int turn = 0; turn < 2; ++turn) {
    meet();
    const Moved before = moved(rank);
    meet();
    EXPECT_EQ(call(in.get(), out.get(), comm, stream.handle()), tuttiSuccess) << tuttiGetLastError();
    stream.synchronize();
    meet();
    result = moved(rank) - before;
  }
  return result;
}

/// The mean of all GPUs.
Moved mean_of(const Call& call, bool registered) {
  std::vector<Moved> each(kRanks);
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  run_ranks(kRanks, [&](int rank) {
    use_gpu(rank);
    tuttiComm_t comm = nullptr;
    EXPECT_EQ(tuttiCommInitRank(&comm, kRanks, id, rank), tuttiSuccess) << tuttiGetLastError();
    each[static_cast<size_t>(rank)] = moved_in(call, registered, rank, comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError();
  });
  Moved sum;
  for (const Moved& one : each) {
    sum.from_peers += one.from_peers / kRanks, sum.to_peers += one.to_peers / kRanks;
    sum.loaded += one.loaded / kRanks, sum.stored += one.stored / kRanks;
  }
  return sum;
}

class Bytes : public testing::Test {
 protected:
  void SetUp() override {
    if (::dlsym(RTLD_DEFAULT, "fake_cuda_bytes") == nullptr) GTEST_SKIP() << "a real driver counts no bytes";
    if (std::getenv("FAKE_CUDA_COUNT") == nullptr) GTEST_SKIP() << "FAKE_CUDA_COUNT=1 counts";
  }
  /// `crossing`: blocks that each GPU gets over links. By `get` it loads them; by slots others store them.
  static void expect(const Call& call, double crossing, const Moved& registered, const Moved& others) {
    for (const bool is_registered : {true, false}) {
      SCOPED_TRACE(is_registered ? "registered" : "not registered");
      const Moved found = mean_of(call, is_registered);
      const Moved& wanted = is_registered ? registered : others;
      EXPECT_DOUBLE_EQ(found.from_peers, by_get() ? crossing : 0);
      EXPECT_DOUBLE_EQ(found.to_peers, by_get() ? 0 : crossing);
      EXPECT_DOUBLE_EQ(found.loaded, wanted.loaded);
      EXPECT_DOUBLE_EQ(found.stored, wanted.stored);
    }
  }
};

constexpr double n = kRanks;

/// Of two_shot: each GPU folds its block of all inputs, and sends it to all. In place nothing else is moved; without,
/// its input's other blocks and its sum are staged. By slots the sum is loaded once for each reader.
TEST_F(Bytes, OfAnAllReduce) {
  const Call call = [](const unsigned char* in, unsigned char* out, tuttiComm_t comm, tuttiStream_t stream) {
    return tuttiAllReduce(in, out, kAll / 4, tuttiFloat32, tuttiSum, comm, stream);
  };
  const Moved in_place{.loaded = 1, .stored = n}, staged{.loaded = n, .stored = n + n};
  const Moved slots{.loaded = (n - 1) + n + 2 * (n - 1), .stored = n};
  expect(call, 2 * (n - 1), by_get() ? in_place : slots, by_get() ? staged : slots);
}

TEST_F(Bytes, OfAnAllGather) {
  const Call call = [](const unsigned char* in, unsigned char* out, tuttiComm_t comm, tuttiStream_t stream) {
    return tuttiAllGather(in, out, kBlock / 4, tuttiFloat32, comm, stream);
  };
  const Moved in_place{.loaded = 1, .stored = n}, staged{.loaded = 1, .stored = n + 1};
  const Moved slots{.loaded = n + (n - 1), .stored = n};
  expect(call, n - 1, by_get() ? in_place : slots, by_get() ? staged : slots);
}

TEST_F(Bytes, OfAReduceScatter) {
  const Call call = [](const unsigned char* in, unsigned char* out, tuttiComm_t comm, tuttiStream_t stream) {
    return tuttiReduceScatter(in, out, kBlock / 4, tuttiFloat32, tuttiSum, comm, stream);
  };
  const Moved in_place{.loaded = 1, .stored = 1}, staged{.loaded = n, .stored = n};
  const Moved slots{.loaded = (n - 1) + n, .stored = 1};
  expect(call, n - 1, by_get() ? in_place : slots, by_get() ? staged : slots);
}

TEST_F(Bytes, OfAnAllToAll) {
  const Call call = [](const unsigned char* in, unsigned char* out, tuttiComm_t comm, tuttiStream_t stream) {
    return tuttiAllToAll(in, out, kBlock / 4, tuttiFloat32, comm, stream);
  };
  const Moved in_place{.loaded = 1, .stored = n}, staged{.loaded = n, .stored = n + (n - 1)};
  const Moved slots{.loaded = n + (n - 1), .stored = n};
  expect(call, n - 1, by_get() ? in_place : slots, by_get() ? staged : slots);
}

}  // namespace
}  // namespace tutti
