// Communicators of the ranks that remain, where ranks are threads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fault/threads.hpp"
#include "support/scoped_env.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

/// Returns once this rank knows that the communicator has failed.
void await_failure(tuttiComm_t comm) {
  tuttiResult_t state = tuttiSuccess;
  while (state == tuttiSuccess) ASSERT_EQ(tuttiCommGetAsyncError(comm, &state), tuttiSuccess);
}

TEST(Shrink, NumbersTheRemainingRanksInOrderAndAgainAfterAnAbort) {
  with_ranks(
      5,
      [](int rank, tuttiComm_t comm) {
        if (rank == 3) {
          EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
        }
        await_failure(comm);
        if (rank == 1 || rank == 3) return;
        const std::vector<int> excluded = rank == 4 ? std::vector{3, 1} : std::vector{1, 3};
        for (int again = 0; again < 2; ++again) {
          tuttiComm_t shrunk = nullptr;
          ASSERT_EQ(tuttiCommShrink(comm, excluded.data(), 2, &shrunk), tuttiSuccess) << tuttiGetLastError();
          int ranks = 0, mine = -1;
          EXPECT_EQ(tuttiCommCount(shrunk, &ranks), tuttiSuccess);
          EXPECT_EQ(tuttiCommUserRank(shrunk, &mine), tuttiSuccess);
          EXPECT_EQ(ranks, 3);
          EXPECT_EQ(mine, rank / 2);
          expect_usable(shrunk);
          EXPECT_EQ(tuttiCommDestroy(shrunk), tuttiSuccess) << tuttiGetLastError();
        }
      },
      tuttiAborted);
}

TEST(Shrink, LeavesAHealthyParentAsItIs) {
  with_ranks(3, [](int rank, tuttiComm_t comm) {
    if (rank != 0) {
      const int excluded = 0;
      tuttiComm_t shrunk = nullptr;
      ASSERT_EQ(tuttiCommShrink(comm, &excluded, 1, &shrunk), tuttiSuccess) << tuttiGetLastError();
      expect_usable(shrunk);
      EXPECT_EQ(tuttiCommDestroy(shrunk), tuttiSuccess) << tuttiGetLastError();
    }
    expect_usable(comm);
  });
}

TEST(Shrink, ThatRanksDoNotAgreeOnTimesOutOnEachOfThem) {
  const test::ScopedEnv env("TUTTI_INIT_TIMEOUT", "2");
  with_ranks(4, [](int rank, tuttiComm_t comm) {
    if (rank >= 2) return;
    const int excluded = rank == 0 ? 3 : 2;  // rank 0 waits for 1 and 2, rank 1 for 0 and 3
    tuttiComm_t shrunk = nullptr;
    EXPECT_EQ(tuttiCommShrink(comm, &excluded, 1, &shrunk), tuttiTimeout);
    EXPECT_EQ(shrunk, nullptr);
    const std::string text = tuttiGetLastError();
    EXPECT_NE(text.find("with the same excluded ranks"), std::string::npos) << text;
  });
}

TEST(Shrink, RefusesRanksThatCannotBeExcluded) {
  with_ranks(2, [](int rank, tuttiComm_t comm) {
    const auto refused = [&](const std::vector<int>& excluded, const char* why) {
      tuttiComm_t shrunk = nullptr;
      EXPECT_EQ(tuttiCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), &shrunk),
                tuttiInvalidArgument);
      EXPECT_NE(std::string(tuttiGetLastError()).find(why), std::string::npos) << tuttiGetLastError();
    };
    const int other = 1 - rank;
    refused({}, "no rank is excluded");
    refused({2}, "excluded rank 2: ranks are 0 to 1");
    refused({-1}, "excluded rank -1");
    refused({other, other}, "excluded twice");
    refused({rank}, "names itself as excluded");
    tuttiComm_t shrunk = nullptr;
    EXPECT_EQ(tuttiCommShrink(comm, nullptr, 1, &shrunk), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommShrink(comm, &other, 1, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiCommShrink(comm, &other, 1, &shrunk), tuttiInvalidUsage);
    EXPECT_EQ(tuttiGroupDiscard(), tuttiSuccess);
    ASSERT_EQ(tuttiCommShrink(comm, &other, 1, &shrunk), tuttiSuccess) << tuttiGetLastError();  // of one rank
    expect_usable(shrunk);
    EXPECT_EQ(tuttiCommDestroy(shrunk), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::fault
