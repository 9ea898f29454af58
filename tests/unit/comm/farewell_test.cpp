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

}  // namespace
}  // namespace tutti
