// Groups, streams and destroy, used by several threads.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#include "tutti/tutti.h"
#include "tutti/tutti.hpp"

namespace tutti {
namespace {

std::vector<tuttiComm_t> join_all(int n) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(n));
  EXPECT_EQ(tuttiCommInitAll(comms.data(), n), tuttiSuccess) << tuttiGetLastError();
  return comms;
}

void leave(std::vector<tuttiComm_t>& comms) {
  run_ranks(static_cast<int>(comms.size()), [&](int r) { tuttiCommDestroy(comms[static_cast<size_t>(r)]); });
}

tuttiResult_t add(const float& in, float& out, tuttiComm_t comm, tuttiStream_t stream) {
  return tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, stream);
}

TEST(Groups, ThreadsSharingAStreamKeepTicketsInOrder) {
  auto comms = join_all(1);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  run_ranks(3, [&](int) {
    const float in = 1;
    static thread_local float out;
    for (int i = 0; i < 3000; ++i) ASSERT_EQ(add(in, out, comms[0], stream), tuttiSuccess);
    ASSERT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
  });
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  leave(comms);
}

TEST(Groups, TheEndWaitsIfOneCallHasNoStream) {
  auto comms = join_all(2);
  run_ranks(2, [&](int r) {
    Stream stream;
    const float in = 1;
    float later = -1, now = -1;
    tuttiGroupStart();
    add(in, later, comms[static_cast<size_t>(r)], stream);
    add(in, now, comms[static_cast<size_t>(r)], nullptr);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(now, 2);
    stream.synchronize();
    EXPECT_EQ(later, 2);
  });
  leave(comms);
}

TEST(Groups, EveryStreamReportsTheFailure) {
  const test::ScopedEnv impatient("TUTTI_TIMEOUT", "0.3");
  auto comms = join_all(2), others = join_all(2);
  tuttiStream_t streams[2];
  for (auto& stream : streams) ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  const float in = 1;
  float a = 0, b = 0;
  tuttiGroupStart();  // rank 1 of either communicator never makes the call
  add(in, a, comms[0], streams[0]);
  add(in, b, others[0], streams[1]);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(streams[1]), tuttiTimeout);
  EXPECT_EQ(tuttiStreamSynchronize(streams[0]), tuttiTimeout);
  for (auto& stream : streams) tuttiStreamDestroy(stream);
  leave(comms);
  leave(others);
}

TEST(Groups, DiscardAtAnInnerLevelDropsTheWholeGroup) {
  auto comms = join_all(1);
  const float in = 1;
  float before = -1, inner = -1, after = -1, anew = -1;
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(add(in, before, comms[0], nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(add(in, inner, comms[0], nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(add(in, after, comms[0], nullptr), tuttiInvalidUsage) << "it would be lost";
  EXPECT_NE(std::string(tuttiGetLastError()).find("tuttiGroupDiscard"), std::string::npos) << tuttiGetLastError();
  tuttiComm_t none = nullptr;
  EXPECT_EQ(tuttiCommInitAll(&none, 1), tuttiInvalidUsage);
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage) << "the end of a group that ran nothing";
  EXPECT_NE(std::string(tuttiGetLastError()).find("tuttiGroupDiscard"), std::string::npos) << tuttiGetLastError();
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage) << "no level is left";
  for (const float out : {before, inner, after}) EXPECT_EQ(out, -1);

  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(add(in, anew, comms[0], nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(anew, 1);
  leave(comms);
}

/// As an exception does that propagates through nested groups.
TEST(Groups, EveryLevelOfADiscardedGroupCanBeDiscarded) {
  auto comms = join_all(1);
  const float in = 1;
  float out = -1;
  for (int level = 0; level < 3; ++level) EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(add(in, out, comms[0], nullptr), tuttiSuccess);
  for (int level = 0; level < 3; ++level) EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(tuttiGroupDiscard(), tuttiInvalidUsage) << "no level is left";
  EXPECT_EQ(out, -1);
  EXPECT_EQ(add(in, out, comms[0], nullptr), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(out, 1);
  leave(comms);
}

TEST(Groups, ASendAndItsReceiveMatchAcrossACollective) {
  auto comms = join_all(2);
  run_ranks(2, [&](int r) {
    tuttiComm_t comm = comms[static_cast<size_t>(r)];
    std::vector<float> out(1 << 18, static_cast<float>(r)), in(out.size(), -1);
    const float one = 1;
    float sum = 0;
    tuttiGroupStart();
    tuttiSend(out.data(), out.size(), tuttiFloat32, 1 - r, comm, nullptr);
    add(one, sum, comm, nullptr);
    tuttiRecv(in.data(), in.size(), tuttiFloat32, 1 - r, comm, nullptr);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(in.back(), static_cast<float>(1 - r));
    EXPECT_EQ(sum, 2);
  });
  leave(comms);
}

TEST(Groups, ImposeNoOrderAmongCommunicators) {
  const test::ScopedEnv impatient("TUTTI_TIMEOUT", "20");
  auto first = join_all(2), second = join_all(2);
  run_ranks(2, [&](int r) {
    const auto i = static_cast<size_t>(r);
    const float in = 1;
    float a = 0, b = 0, c = 0;
    if (r == 0) tuttiGroupStart();  // rank 1 calls on the second communicator only after the first
    EXPECT_EQ(add(in, a, first[i], nullptr), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(add(in, b, first[i], nullptr), tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(add(in, c, second[i], nullptr), tuttiSuccess) << tuttiGetLastError();
    const tuttiResult_t ended = r == 0 ? tuttiGroupEnd() : tuttiSuccess;
    EXPECT_EQ(ended, tuttiSuccess) << tuttiGetLastError();
    EXPECT_EQ(a + b + c, 6);
  });
  leave(first);
  leave(second);
}

TEST(Groups, AnExceptionDropsTheCallsOfItsGroup) {
  auto comms = join_all(1);
  const float in = 1;
  float out = -1;
  try {
    const Group group;
    add(in, out, comms[0], nullptr);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(out, -1);
  EXPECT_EQ(add(in, out, comms[0], nullptr), tuttiSuccess) << "no group is open any more";
  EXPECT_EQ(out, 1);
  leave(comms);
}

TEST(Groups, TooManyTransfersForTheArenaEnd) {
  const test::ScopedEnv small("TUTTI_ARENA", "64K");
  const int n = 40;
  auto comms = join_all(n);
  run_ranks(n, [&](int r) {
    std::vector<char> out(100), in(100 * static_cast<size_t>(n));
    tuttiGroupStart();
    for (int p = 0; p < n; ++p) {
      if (p == r) continue;
      tuttiSend(out.data(), 100, tuttiInt8, p, comms[static_cast<size_t>(r)], nullptr);
      tuttiRecv(in.data() + 100 * p, 100, tuttiInt8, p, comms[static_cast<size_t>(r)], nullptr);
    }
    tuttiGroupEnd();  // it may fit on some machines; it must not run forever
  });
  leave(comms);
}

TEST(Groups, AbortEndsAWaitingDestroy) {
  auto comms = join_all(2);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  const float in = 1;
  float out = 0;
  ASSERT_EQ(add(in, out, comms[0], stream), tuttiSuccess);  // rank 1 never makes the call
  std::thread destroys([&] { EXPECT_EQ(tuttiCommDestroy(comms[0]), tuttiAborted); });
  int ranks = 0;
  while (tuttiCommCount(comms[0], &ranks) == tuttiSuccess) std::this_thread::yield();  // until it is being destroyed
  EXPECT_EQ(tuttiCommAbort(comms[0]), tuttiSuccess) << tuttiGetLastError();
  destroys.join();
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiAborted);
  tuttiCommDestroy(comms[1]);  // aborted too, unless it leaves before the abort arrives
}

TEST(Groups, OneThreadSplitsAllRanksInAGroup) {
  auto comms = join_all(4);
  std::vector<tuttiComm_t> parts(4);
  tuttiGroupStart();
  for (int r = 0; r < 4; ++r) {
    const auto i = static_cast<size_t>(r);
    EXPECT_EQ(tuttiCommSplit(comms[i], r == 3 ? TUTTI_NO_COLOUR : r % 2, -r, &parts[i]), tuttiSuccess);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(parts[3], nullptr);
  int rank = -1, ranks = -1;
  tuttiCommUserRank(parts[0], &rank);
  tuttiCommCount(parts[0], &ranks);
  EXPECT_EQ(rank, 1) << "ordered by key";
  EXPECT_EQ(ranks, 2);
  parts.pop_back();
  leave(parts);
  leave(comms);
}

}  // namespace
}  // namespace tutti
