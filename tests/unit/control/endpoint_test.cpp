// Endpoints whose ranks are threads of this process.
#include "control/endpoint.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/socket.hpp"
#include "endpoint_ranks.hpp"

namespace tutti::control {
namespace {

class Ranks : public testing::TestWithParam<Rank> {};

TEST_P(Ranks, JoinExchangeAndLeave) {
  const Rank n = GetParam();
  const UniqueId id = create_unique_id();
  Endpoints all = join_all(id, n);
  for (const auto& endpoint : all) {
    EXPECT_EQ(endpoint->ranks(), n);
    EXPECT_EQ(endpoint->name(), id.name());
    for (Rank r = 0; r < n; ++r) {
      EXPECT_EQ(endpoint->info(r), "info of " + std::to_string(r));
      EXPECT_EQ(endpoint->process_id(r).process, static_cast<uint32_t>(getpid()));
      EXPECT_NE(endpoint->process_id(r).started, 0u);
    }
  }
  on_all(n, [&](Rank r) {
    for (int round = 0; round < 20; ++round) {
      // From no bytes to a megabyte, different on each rank.
      const auto give = [&](Rank of) {
        return std::string(static_cast<size_t>((round * 7 + of) % 5 == 0 ? 0 : (1 << round) + of),
                           static_cast<char>(of));
      };
      const auto got = all[static_cast<size_t>(r)]->exchange(give(r), soon());
      ASSERT_EQ(got.size(), static_cast<size_t>(n));
      for (Rank of = 0; of < n; ++of) EXPECT_EQ(got[static_cast<size_t>(of)], give(of));
    }
  });
  leave_all(all);
}
INSTANTIATE_TEST_SUITE_P(Endpoint, Ranks, testing::Values(1, 2, 3, 8));

TEST(Endpoint, SeveralCommunicatorsAreIndependent) {
  const UniqueId first = create_unique_id(), second = create_unique_id();
  Endpoints a = join_all(first, 2), b = join_all(second, 3);
  a[0]->abort();
  EXPECT_TRUE(a[0]->failure());
  EXPECT_FALSE(b[0]->failure());
  on_all(3, [&](Rank r) { EXPECT_EQ(b[static_cast<size_t>(r)]->exchange("x", soon()).size(), 3u); });
  for (auto& endpoint : a) endpoint->leave(0, soon());
  leave_all(b);
}

TEST(Endpoint, AnIdOfAnotherJobIsAnError) {
  UniqueId id = create_unique_id();
  const UniqueId other = id;
  id.key = random_key();
  EXPECT_ERROR(Endpoint::join(id, 1, 0, "", soon()), Code::InvalidArgument, "another job's");
  release_unique_id(other);
}

TEST(Endpoint, AnIdOfAnEndedJobIsAnError) {
  const UniqueId id = create_unique_id();
  Endpoints all = join_all(id, 1);
  leave_all(all);
  EXPECT_ERROR(Endpoint::join(id, 1, 0, "", soon()), Code::InvalidArgument, "unique id");
}

TEST(Endpoint, AnIdWithoutAListenerIsAnError) {
  UniqueId id = create_unique_id();
  release_unique_id(id);
  const Fd taken = listen_tcp(0);
  id.port = port_of(taken.get());
  const_cast<Fd&>(taken).reset();
  EXPECT_ERROR(Endpoint::join(id, 1, 0, "", soon()), Code::PeerFailed, "nothing listens");
}

TEST(Endpoint, ArgumentsAreChecked) {
  const UniqueId id = create_unique_id();
  EXPECT_ERROR(Endpoint::join(id, 0, 0, "", soon()), Code::InvalidArgument, "rank 0 of 0");
  EXPECT_ERROR(Endpoint::join(id, 2, 2, "", soon()), Code::InvalidArgument, "rank 2 of 2");
  EXPECT_ERROR(Endpoint::join(id, 2, -1, "", soon()), Code::InvalidArgument, "rank -1 of 2");
  EXPECT_ERROR(Endpoint::join(id, 2, 0, std::string(2 << 20, 'x'), soon()), Code::InvalidArgument, "info");
  release_unique_id(id);
}

TEST(Endpoint, JoinStopsAtTheStopFlag) {
  const UniqueId id = create_unique_id();
  std::atomic<uint32_t> failed{0};
  auto joining = std::async(std::launch::async,
                            [&] { return error_of([&] { Endpoint::join(id, 2, 0, "", soon(), {.stop = &failed}); }); });
  failed = 1;
  const auto error = joining.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::Aborted) << error->what();
  release_unique_id(id);
}

/// As where the communicator of which this one is made has failed.
TEST(Endpoint, TheReasonToStopJoiningIsToldToTheOthers) {
  const UniqueId id = create_unique_id();  // of three ranks: without the third, nobody is done before it hears
  std::atomic<uint32_t> failed{0};
  const JoinTerms terms{&failed, [] { return Error(Code::Mismatch, "rank 7 called something else"); }, {4, 7, 9}};
  auto stopped =
      std::async(std::launch::async, [&] { return error_of([&] { Endpoint::join(id, 3, 0, "", soon(), terms); }); });
  failed = 1;
  EXPECT_ERROR(Endpoint::join(id, 3, 1, "", soon(), {.names = {4, 7, 9}}), Code::Mismatch,
               "rank 7 could not join the communicator that is made: rank 7 called something else");
  const auto error = stopped.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(std::string(error->what()), "rank 7 called something else");
}

TEST(Endpoint, RanksOfACommunicatorMadeOfAnotherHaveTheNumbersOfThatOne) {
  const UniqueId id = create_unique_id();
  const JoinTerms terms{.names = {4, 7, 9}};
  on_all(2, [&](Rank r) {
    EXPECT_ERROR(Endpoint::join(id, 3, r, "", Deadline::in(0.3), terms), Code::Timeout, "missing: rank 9");
  });
  EXPECT_ERROR(Endpoint::join(id, 3, 2, "", soon(), terms), Code::Timeout, "rank 9 could not join the communicator");
}

TEST(Endpoint, AWrongNumberOfRanksFailsThatRankOnly) {
  const UniqueId id = create_unique_id();
  std::optional<Error> refusal;
  std::thread offender([&] { refusal = error_of([&] { Endpoint::join(id, 5, 4, "", soon()); }); });
  Endpoints all = join_all(id, 2);
  offender.join();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code(), Code::InvalidArgument) << refusal->what();
  EXPECT_NE(std::string(refusal->what()).find("5 ranks, the others that there are 2"), std::string::npos)
      << refusal->what();
  leave_all(all);
}

TEST(Endpoint, ATakenRankFailsItsSecondClaimantOnly) {
  const UniqueId id = create_unique_id();
  Endpoints all = join_all(id, 2);
  EXPECT_ERROR(Endpoint::join(id, 2, 1, "", soon()), Code::InvalidArgument, "rank 1 of this communicator is taken");
  on_all(2, [&](Rank r) { EXPECT_EQ(all[static_cast<size_t>(r)]->exchange("x", soon()).size(), 2u); });
  leave_all(all);
}

TEST(Endpoint, TheTimeOutNamesTheMissingRanksOnEveryRank) {
  const UniqueId id = create_unique_id();
  on_all(2, [&](Rank r) {
    EXPECT_ERROR(Endpoint::join(id, 4, r, "", Deadline::in(0.3)), Code::Timeout, "missing: ranks 2, 3");
  });
  EXPECT_ERROR(Endpoint::join(id, 4, 3, "", soon()), Code::Timeout,
               "missing: ranks 2, 3");  // too late, and refused with the reason
}

TEST(Endpoint, AFailureReachesAllRanksWithTheSameText) {
  Endpoints all = join_all(create_unique_id(), 3);
  all[1]->fail(Code::Mismatch, "rank 1 saw something odd");
  for (const auto& endpoint : all) {
    const Deadline deadline = soon();
    while (endpoint->failed() == 0 && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(endpoint->failed(), static_cast<uint32_t>(Code::Mismatch));
    EXPECT_EQ(endpoint->failure()->second, "rank 1 saw something odd");
    EXPECT_ERROR(endpoint->check(), Code::Mismatch, "something odd");
  }
  all[2]->fail(Code::Timeout, "too late");
  EXPECT_EQ(all[2]->failure()->first, Code::Mismatch) << "only the first failure counts";
  for (auto& endpoint : all) endpoint->leave(1, soon());
}

TEST(Endpoint, AbortEndsEveryWait) {
  Endpoints all = join_all(create_unique_id(), 3);
  std::thread aborter([&] { all[2]->abort(); });
  on_all(2, [&](Rank r) {
    EXPECT_ERROR(all[static_cast<size_t>(r)]->exchange("x", soon()), Code::Aborted, "rank 2 (process");
  });
  aborter.join();
  EXPECT_ERROR(all[0]->ask(1, "none", "", soon()), Code::Aborted, "rank 2");
  EXPECT_ERROR(all[0]->open_stream(1, "none", soon()), Code::Aborted, "rank 2");
  for (auto& endpoint : all) endpoint->leave(1, soon());
}

TEST(Endpoint, AnExchangeTimeOutNamesTheMissingRank) {
  Endpoints all = join_all(create_unique_id(), 3);
  on_all(2, [&](Rank r) {
    EXPECT_ERROR(all[static_cast<size_t>(r)]->exchange("x", Deadline::in(0.2)), Code::Timeout,
                 "rank 2 did not enter the communicator's creation within 0.2 s, though it is alive");
  });
  for (auto& endpoint : all) endpoint->leave(1, soon());
}

TEST(Endpoint, WaitersInAnExchangeReceiveTheMissingRanks) {
  Endpoints all = join_all(create_unique_id(), 3);
  on_all(2, [&](Rank r) {
    Endpoint& mine = *all[static_cast<size_t>(r)];
    const ExchangePurpose purpose{7, "split()", [&](const std::vector<Rank>& missing, bool) {
                                    for (const Rank rank : missing)
                                      mine.fail(Code::Mismatch, std::to_string(rank) + " is elsewhere");
                                  }};
    EXPECT_ERROR(mine.exchange("x", soon(), purpose), Code::Mismatch, "2 is elsewhere");
  });
  for (auto& endpoint : all) endpoint->leave(1, soon());
}

TEST(Endpoint, AnExchangeWithARankThatLeftIsAMismatch) {
  Endpoints all = join_all(create_unique_id(), 3);
  all[2]->leave(7, soon());
  on_all(2, [&](Rank r) {
    EXPECT_ERROR(all[static_cast<size_t>(r)]->exchange("x", soon()), Code::Mismatch,
                 "rank 2 called destroy() as call 8 where");
  });
  for (auto& endpoint : all) endpoint->leave(8, soon());
}

TEST(Endpoint, CallsOfARankThatLeftAreReportedAndCompared) {
  Endpoints all = join_all(create_unique_id(), 3);
  EXPECT_FALSE(all[0]->left(2));
  all[2]->leave(16, soon());
  const Deadline deadline = soon();
  while (!all[0]->left(2) && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(all[0]->left(2)->calls, 16u);
  EXPECT_FALSE(all[0]->left(1));
  all[1]->leave(17, soon());
  const LeaveResult result = all[0]->leave(17, soon());
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.mismatch, "rank 2 left after 16 calls, rank 1 after 17");
  EXPECT_ERROR(all[0]->exchange("x", soon()), Code::InvalidUsage, "has left");
}

TEST(Endpoint, TransfersOfARankThatLeftAreReportedToItsPeers) {
  Endpoints all = join_all(create_unique_id(), 3);
  all[2]->leave(0, soon(), 0, "", {{1, 5, 6}, {0, 3, 4}});
  for (Rank r : {0, 1}) {
    const Endpoint& endpoint = *all[static_cast<size_t>(r)];
    const Deadline deadline = soon();
    while (!endpoint.left(2) && !deadline.passed()) std::this_thread::yield();
    ASSERT_TRUE(endpoint.left(2));
    EXPECT_EQ(endpoint.left(2)->sent_to_us, r == 0 ? 3u : 5u);
    EXPECT_EQ(endpoint.left(2)->received_from_us, r == 0 ? 4u : 6u);
  }
  all[1]->leave(0, soon(), 0, "", {{2, 6, 5}});
  EXPECT_EQ(all[0]->leave(0, soon(), 0, "", {{2, 4, 3}}).mismatch, "");
}

/// The mismatch reported to the second of two ranks to leave, after both have left with these counts.
std::string mismatch_after(std::vector<PeerTransfers> first, std::vector<PeerTransfers> second) {
  Endpoints all = join_all(create_unique_id(), 2);
  all[0]->leave(0, soon(), 0, "", std::move(first));
  return all[1]->leave(0, soon(), 0, "", std::move(second)).mismatch;
}

TEST(Endpoint, SendsWithoutAReceiveAreFound) {
  EXPECT_EQ(mismatch_after({{1, 3, 1}}, {{0, 1, 3}}), "");
  EXPECT_EQ(mismatch_after({{1, 3, 0}}, {{0, 0, 2}}), "rank 0 sent rank 1 3 messages, rank 1 received 2 of them");
  EXPECT_EQ(mismatch_after({{1, 1, 0}}, {}), "rank 0 sent rank 1 1 message, rank 1 received 0 of them");
  EXPECT_EQ(mismatch_after({}, {{0, 2, 0}}), "rank 1 sent rank 0 2 messages, rank 0 received 0 of them");
  EXPECT_EQ(mismatch_after({}, {{0, 0, 1}}), "rank 0 sent rank 1 0 messages, rank 1 received 1");
}

TEST(Endpoint, AFailedCommunicatorsSendsAreNotCompared) {
  Endpoints all = join_all(create_unique_id(), 2);
  all[0]->abort();
  all[0]->leave(0, soon(), 0, "", {{1, 3, 0}});
  EXPECT_EQ(all[1]->leave(0, soon()).mismatch, "");
}

/// One thread leaves all communicators, in any order: only the last leave() can wait, so it must report the mismatch.
TEST(Endpoint, TheLastLeaveReportsTheMismatchOfEarlierOnes) {
  Endpoints a = join_all(create_unique_id(), 2), b = join_all(create_unique_id(), 1);
  EXPECT_EQ(a[1]->leave(17, soon()).mismatch, "");
  a[0]->leave(16, soon());
  const LeaveResult result = b[0]->leave(5, soon());
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.mismatch,
            "rank 0 left after 16 calls, rank 1 after 17 (in a communicator of 2 ranks that was left before)");
  EXPECT_TRUE(result.rank == 0 || result.rank == 1);  // both are in this process: the first to learn of it reports it
  Endpoints c = join_all(create_unique_id(), 1);
  EXPECT_EQ(c[0]->leave(0, soon()).mismatch, "") << "it is reported once";
}

TEST(Endpoint, DroppingItWithoutLeaveFailsTheOtherRanks) {
  Endpoints all = join_all(create_unique_id(), 2);
  all[1].reset();
  EXPECT_ERROR(all[0]->exchange("x", soon()), Code::Aborted, "rank 1 dropped its communicator");
  all[0]->leave(1, soon());
}

/// Of calls before the last one nobody remembers the arguments: the text says no more than is known.
TEST(Endpoint, ADifferenceBeforeTheLastCallIsNotSaidToBeInTheLastOne) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_EQ(all[0]->leave(6, soon(), 17, "gather(count=8, f32, root=2)").mismatch, "");
  EXPECT_EQ(
      all[1]->leave(6, soon(), 18, "gather(count=8, f32, root=2)").mismatch,
      "of 6 calls, one that rank 1 made differs from that of rank 0: not the last one, gather(count=8, f32, root=2)");
}

}  // namespace
}  // namespace tutti::control
