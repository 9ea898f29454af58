// Calls with invalid arguments: reported at once and exactly, with no buffer touched and the communicator still usable.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "fault/threads.hpp"

namespace tutti::fault {
namespace {

constexpr auto kNoType = static_cast<tuttiDataType_t>(14);

/// A buffer that reveals writes.
class Untouched {
 public:
  Untouched() { bytes_.fill(0x77); }
  ~Untouched() {
    EXPECT_EQ(std::count(bytes_.begin(), bytes_.end(), 0x77), 4096) << "a refused call has written to a buffer";
  }
  unsigned char* at(size_t offset = 0) { return bytes_.data() + offset; }

 private:
  std::array<unsigned char, 4096> bytes_{};
};

void refused(tuttiResult_t result, const std::string& words) {
  EXPECT_EQ(result, tuttiInvalidArgument) << words;
  EXPECT_NE(std::string(tuttiGetLastError()).find(words), std::string::npos) << tuttiGetLastError();
}

TEST(Arguments, AreRefusedBeforeAnythingIsTouched) {
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    Untouched a, b;
    const auto sum = tuttiSum;
    refused(tuttiAllReduce(nullptr, b.at(), 8, tuttiFloat32, sum, comm, nullptr), "the input (sendbuff) is null");
    refused(tuttiAllReduce(a.at(), nullptr, 8, tuttiFloat32, sum, comm, nullptr), "the output (recvbuff) is null");
    refused(tuttiAllReduce(a.at(), b.at(), 8, kNoType, sum, comm, nullptr), "14 is not an element type");
    refused(tuttiAllReduce(a.at(), b.at(), 8, static_cast<tuttiDataType_t>(-1), sum, comm, nullptr), "-1 is no");
    refused(tuttiAllReduce(a.at(), b.at(), 8, tuttiFloat32, 8, comm, nullptr), "8 is not a reduction operator");
    refused(tuttiAllReduce(a.at(), b.at(), 8, tuttiFloat32, -1, comm, nullptr), "-1 is not a reduction operator");
    refused(tuttiAllReduce(a.at(), b.at(), 8, tuttiFloat32, 99, comm, nullptr),
            fmt::format("rank {}: all_reduce: operator 99 was never made on this communicator", rank));
    refused(tuttiAllReduce(a.at(), b.at(), static_cast<size_t>(-8), tuttiUint8, sum, comm, nullptr), "is negative");
    refused(tuttiAllReduce(a.at(), b.at(), SIZE_MAX / 8, tuttiFloat64, sum, comm, nullptr), "too large");
    refused(tuttiAllGather(a.at(), b.at(), SIZE_MAX / 8 / 3 + 1, tuttiFloat32, comm, nullptr), "too large");
    refused(tuttiAllReduce(a.at(), a.at(4), 8, tuttiFloat32, sum, comm, nullptr), "overlap");
    refused(tuttiAllGather(a.at(), a.at(16), 8, tuttiFloat32, comm, nullptr), "overlap");
    refused(tuttiReduceScatter(a.at(), a.at(8), 8, tuttiFloat32, sum, comm, nullptr), "overlap");
    refused(tuttiAllToAll(a.at(), a.at(), 8, tuttiFloat32, comm, nullptr), "cannot run in place");
    refused(tuttiAllToAll(a.at(), a.at(64), 8, tuttiFloat32, comm, nullptr), "cannot run in place");
    refused(tuttiBroadcast(a.at(), b.at(), 8, tuttiFloat32, 3, comm, nullptr), "root 3 is not a rank");
    refused(tuttiReduce(a.at(), b.at(), 8, tuttiFloat32, sum, -1, comm, nullptr), "root -1 is not a rank");
    refused(tuttiSend(a.at(), 8, tuttiFloat32, 3, comm, nullptr), "peer 3 is not a rank");
    refused(tuttiRecv(nullptr, 8, tuttiFloat32, (rank + 1) % 3, comm, nullptr), "null");
    refused(tuttiBarrier(nullptr, nullptr), "barrier: the communicator is null: it was not made, has been closed, or");
    refused(tuttiCommSetTimeout(nullptr, 1), "tuttiCommSetTimeout: the communicator is null");
    std::array<uint64_t, 8> part{};
    tuttiWindow_t window = nullptr;
    ASSERT_EQ(tuttiWindowRegister(comm, part.data(), sizeof part, &window), tuttiSuccess);
    refused(tuttiSignal(0, 256, window, nullptr), "signal(256, to rank 0)");
    refused(tuttiPutSignal(a.at(), 8, 0, 0, -1, window, nullptr), "signal -1)");
    refused(tuttiWaitSignal(0, 300, 1, window, nullptr), "wait_signal(1 of signal 300, from rank 0)");
    EXPECT_EQ(tuttiWindowDeregister(window), tuttiSuccess);
    tuttiComm_t split = nullptr;
    refused(tuttiCommSplit(comm, -5, 0, &split), "split: colour -5 is negative; TUTTI_NO_COLOUR (-1) joins none");
    EXPECT_EQ(tuttiSend(a.at(), 8, tuttiFloat32, rank, comm, nullptr), tuttiInvalidUsage);
    EXPECT_EQ(
        std::string(tuttiGetLastError()),
        fmt::format("rank {} sends itself 1 message and receives 0: put each send to itself and its recv into one "
                    "group",
                    rank));
    tuttiRedOp_t op = -7;
    const float two = 2;
    refused(tuttiRedOpCreatePreMulSum(&op, nullptr, tuttiFloat32, comm), "scalar is null");
    refused(tuttiRedOpCreatePreMulSum(&op, &two, kNoType, comm), "14 is not an element type");
    EXPECT_EQ(op, -7);
    ASSERT_EQ(tuttiRedOpCreatePreMulSum(&op, &two, tuttiFloat32, comm), tuttiSuccess);
    refused(tuttiAllReduce(a.at(), b.at(), 8, tuttiFloat64, op, comm, nullptr),
            "has a scalar of f32 where the buffers are f64");
    EXPECT_EQ(tuttiRedOpDestroy(op, comm), tuttiSuccess);
    refused(tuttiAllReduce(a.at(), b.at(), 8, tuttiFloat32, op, comm, nullptr), "was destroyed before this call");
    refused(tuttiRedOpDestroy(op, comm), "was not made on this communicator");
    expect_usable(comm);
  });
}

TEST(Trace, IsWrittenWhileACommunicatorLives) {
  refused(tuttiWriteTrace(nullptr), "path");
  EXPECT_EQ(tuttiWriteTrace("/proc/none/a.trace"), tuttiSystemError);
  const std::string path = fmt::format("/tmp/tutti-arguments-{}.trace", getpid());
  with_ranks(2, [&](int rank, tuttiComm_t comm) {
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 0) {
      ASSERT_EQ(tuttiWriteTrace("/tmp/tutti-arguments-%p.trace"), tuttiSuccess) << tuttiGetLastError();
    }
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
  });
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text.find("{\"tutti_trace\":1,"), 0u) << text.substr(0, 100);
  EXPECT_NE(text.find("\"barrier()\""), std::string::npos);
  unlink(path.c_str());
}

TEST(Arguments, OfAGroupAreRefusedAtTheCall) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    int mine = rank, theirs = -1;
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    refused(tuttiSend(&mine, 1, tuttiInt32, 2, comm, nullptr), "peer 2");
    EXPECT_EQ(tuttiSend(&mine, 1, tuttiInt32, 1 - rank, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(&theirs, 1, tuttiInt32, 1 - rank, comm, nullptr), tuttiSuccess);
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(theirs, 1 - rank);
    EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage);
  });
}

TEST(Arguments, OfJoiningAreRefused) {
  tuttiUniqueId id{};
  tuttiComm_t comm = nullptr;
  refused(tuttiGetUniqueId(nullptr), "id is null");
  refused(tuttiCommInitRank(&comm, 1, id, 0), "unique id");
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  refused(tuttiCommInitRank(nullptr, 1, id, 0), "comm is null");
  refused(tuttiCommInitRank(&comm, 0, id, 0), "at least 1");
  refused(tuttiCommInitRank(&comm, 2, id, 2), "ranks are 0 to 1");
  ASSERT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiSuccess) << tuttiGetLastError();
  refused(tuttiCommSplit(comm, -2, 0, &comm), "colour -2");
}

TEST(Destroyed, CommunicatorsReturnInvalidUsage) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  ASSERT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  int ranks = 0;
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiInvalidUsage);
  EXPECT_EQ(std::string(tuttiGetLastError()), "the communicator was destroyed");
  EXPECT_EQ(tuttiCommCount(comm, &ranks), tuttiInvalidUsage);
  EXPECT_EQ(tuttiCommAbort(comm), tuttiInvalidUsage);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiInvalidUsage);
}

TEST(Destroyed, CommunicatorsRefuseCollectedCalls) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
  std::thread([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess); }).join();
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage) << "or it would wait for ever";
}

/// The calls that a group has collected would be lost.
TEST(OpenGroup, OfNoCallsThatIsAbandonedLeavesTheOuterOneOpen) {
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiGroupAbandon("the inner one ends"), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage);
}

TEST(OpenGroup, RefusesToEndItsCommunicators) {
  tuttiComm_t comm = nullptr, other = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  ASSERT_EQ(tuttiCommInitAll(&other, 1), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiInvalidUsage);
  EXPECT_NE(std::string(tuttiGetLastError()).find("tuttiGroupEnd"), std::string::npos) << tuttiGetLastError();
  EXPECT_EQ(tuttiCommFinalize(comm), tuttiInvalidUsage);
  EXPECT_EQ(tuttiCommDestroy(other), tuttiSuccess) << "the group has no call on it";
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(OpenGroup, ThatIsAbandonedFailsItsCommunicators) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  EXPECT_EQ(tuttiGroupAbandon("nothing"), tuttiSuccess) << "there is no group";
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiGroupAbandon("nothing"), tuttiSuccess) << "nothing is in it";
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiGroupAbandon(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiGroupAbandon("the scope ends"), tuttiInvalidUsage);
  const std::string text = tuttiGetLastError();
  EXPECT_EQ(text, "the scope ends: none of the group's calls has run");
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage) << "every level is dropped";
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiInvalidUsage);
  EXPECT_EQ(std::string(tuttiGetLastError()), "rank 0: " + text);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiInvalidUsage);
}

TEST(ForkedChild, GetsInvalidUsage) {
  tuttiComm_t comm = nullptr;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused_all = tuttiBarrier(comm, nullptr) == tuttiInvalidUsage &&
                             tuttiCommAbort(comm) == tuttiInvalidUsage && tuttiCommDestroy(comm) == tuttiInvalidUsage &&
                             tuttiStreamSynchronize(stream) == tuttiInvalidUsage;
    _exit(refused_all ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << "the parent goes on";
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::fault
