// Two ranks whose last calls differ, but neither of which hears from the other: only leaving can tell.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti {
namespace {

TEST(Farewell, NamesTheLastCallsWhenTheyDifferThoughNobodyReceived) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess) << tuttiGetLastError();
  std::vector<std::string> texts(2);
  std::vector<tuttiResult_t> results(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      float data = 1;  // each takes itself for the root, sends, and has nothing to wait for
      EXPECT_EQ(tuttiBroadcast(&data, &data, 1, tuttiFloat32, rank, comms[rank], nullptr), tuttiSuccess);
      results[static_cast<size_t>(rank)] = tuttiCommDestroy(comms[rank]);
      texts[static_cast<size_t>(rank)] = tuttiGetLastError();
    });
  }
  for (auto& rank : ranks) rank.join();
  // One process: the rank that leaves first does not wait for the other; the last one knows.
  const size_t last = results[0] == tuttiMismatch ? 0 : 1;
  EXPECT_EQ(results[last], tuttiMismatch);
  EXPECT_NE(
      texts[last].find("rank 1 called broadcast(count=1, f32, root=1) last where rank 0 called broadcast(count=1, "
                       "f32, root=0)"),
      std::string::npos)
      << texts[last];
}

/// One thread destroys them all, so only the last of them may wait: it tells what the others could not know.
std::string destroy_all(const std::vector<tuttiComm_t>& comms) {
  std::string told;
  for (const tuttiComm_t comm : comms) {
    if (tuttiCommDestroy(comm) == tuttiMismatch) told = tuttiGetLastError();
  }
  return told;
}

TEST(Farewell, TheLastCommunicatorTellsTheMismatchOfOneDestroyedBefore) {
  tuttiComm_t pair[2], alone;
  ASSERT_EQ(tuttiCommInitAll(pair, 2), tuttiSuccess) << tuttiGetLastError();
  ASSERT_EQ(tuttiCommInitAll(&alone, 1), tuttiSuccess) << tuttiGetLastError();
  float data = 1;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiBroadcast(&data, &data, 1, tuttiFloat32, rank, pair[rank], nullptr), tuttiSuccess);
  }
  const std::string told = destroy_all({pair[0], pair[1], alone});
  EXPECT_NE(told.find(": of 1 call, rank 1 called broadcast(count=1, f32, root=1) last"), std::string::npos) << told;
}

TEST(Farewell, AMessageThatNobodyReceivedIsTold) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2), tuttiSuccess) << tuttiGetLastError();
  float data = 1, got = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tuttiSend(&data, 1, tuttiFloat32, 1, comms[0], nullptr), tuttiSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(tuttiRecv(&got, 1, tuttiFloat32, 0, comms[1], nullptr), tuttiSuccess);
  const std::string told = destroy_all({comms[0], comms[1]});
  EXPECT_NE(told.find(": rank 0 sent rank 1 3 messages, rank 1 received 2 of them"), std::string::npos) << told;
}

}  // namespace
}  // namespace tutti
