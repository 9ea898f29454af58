// Two ranks whose last calls differ, though neither receives anything from the other: only leaving reveals it.
#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "control/control_thread.hpp"
#include "tutti/tutti.h"

namespace tutti {
namespace {

TEST(Leave, ReportsDifferentLastCallsWithoutAReceive) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess) << tuttiGetLastError();
  std::vector<std::string> texts(2);
  std::vector<tuttiResult_t> results(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      float data = 1;  // each rank broadcasts as the root and waits for nothing
      EXPECT_EQ(tuttiBroadcast(&data, &data, 1, tuttiFloat32, rank, comms[rank], nullptr), tuttiSuccess);
      results[static_cast<size_t>(rank)] = tuttiCommDestroy(comms[rank]);
      texts[static_cast<size_t>(rank)] = tuttiGetLastError();
    });
  }
  for (auto& rank : ranks) rank.join();
  // In one process the rank that leaves first does not wait for the other; the last one knows.
  const size_t last = results[0] == tuttiMismatch ? 0 : 1;
  EXPECT_EQ(results[last], tuttiMismatch);
  EXPECT_NE(
      texts[last].find("rank 1 called broadcast(count=1, f32, root=1) last where rank 0 called broadcast(count=1, "
                       "f32, root=0)"),
      std::string::npos)
      << texts[last];
}

/// One thread destroys all communicators, so only the last call may wait: it reports what the others could not know.
std::string destroy_all(const std::vector<tuttiComm_t>& comms) {
  std::string mismatch;
  for (const tuttiComm_t comm : comms) {
    if (tuttiCommDestroy(comm) == tuttiMismatch) mismatch = tuttiGetLastError();
  }
  return mismatch;
}

TEST(Leave, TheLastDestroyReportsTheMismatchOfEarlierOnes) {
  tuttiComm_t pair[2], alone;
  ASSERT_EQ(tuttiCommInitAll(pair, 2), tuttiSuccess) << tuttiGetLastError();
  ASSERT_EQ(tuttiCommInitAll(&alone, 1), tuttiSuccess) << tuttiGetLastError();
  float data = 1;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiBroadcast(&data, &data, 1, tuttiFloat32, rank, pair[rank], nullptr), tuttiSuccess);
  }
  const std::string mismatch = destroy_all({pair[0], pair[1], alone});
  EXPECT_NE(mismatch.find(": of 1 call, rank 1 called broadcast(count=1, f32, root=1) last"), std::string::npos)
      << mismatch;
}

TEST(Leave, ReportsASendWithoutAReceive) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess) << tuttiGetLastError();
  float data = 1, got = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tuttiSend(&data, 1, tuttiFloat32, 1, comms[0], nullptr), tuttiSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(tuttiRecv(&got, 1, tuttiFloat32, 0, comms[1], nullptr), tuttiSuccess);
  const std::string mismatch = destroy_all({comms[0], comms[1]});
  EXPECT_NE(mismatch.find(": rank 0 sent rank 1 3 messages, rank 1 received 2 of them"), std::string::npos) << mismatch;
}

/// A rank whose call has failed may tell another thread; that rank's destroy() must not succeed then.
TEST(Leave, RanksOfOneProcessKnowAFailureAtOnce) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess) << tuttiGetLastError();
  std::latch busy(1), over(1);
  control::ControlThread::get().loop().post([&] {  // no message arrives meanwhile
    busy.count_down();
    over.wait();
  });
  busy.wait();
  EXPECT_EQ(tuttiCommAbort(comms[0]), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comms[1]), tuttiAborted) << tuttiGetLastError();
  over.count_down();
  EXPECT_EQ(tuttiCommDestroy(comms[0]), tuttiAborted) << tuttiGetLastError();
}

}  // namespace
}  // namespace tutti
