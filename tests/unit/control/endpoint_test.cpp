// Endpoints whose ranks are threads of this process.
#include "control/endpoint.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "base/socket.hpp"

namespace tutti::control {
namespace {

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

Deadline soon() { return Deadline::in(30); }

/// Runs `body(rank)` on a thread for each rank.
template <class Body>
void on_all(Rank n, const Body& body) {
  std::vector<std::thread> threads;
  for (Rank r = 0; r < n; ++r) {
    threads.emplace_back([&body, r] {
      try {
        body(r);
      } catch (const Error& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

Endpoints join_all(const UniqueId& id, Rank n) {
  Endpoints all(static_cast<size_t>(n));
  on_all(n, [&](Rank r) {
    all[static_cast<size_t>(r)] = Endpoint::join(id, n, r, "info of " + std::to_string(r), soon());
  });
  return all;
}

void leave_all(Endpoints& all, uint64_t calls = 1) {
  for (size_t i = 0; i < all.size(); ++i) {
    const LeaveResult result = all[i]->leave(calls, soon());
    EXPECT_EQ(result.mismatch, "");
    if (i + 1 == all.size()) {
      EXPECT_TRUE(result.complete);
    }
  }
}

std::optional<Error> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

#define EXPECT_ERROR(action, expected_code, words)                                         \
  do {                                                                                     \
    const auto error = error_of([&] { action; });                                          \
    ASSERT_TRUE(error) << "no error";                                                      \
    EXPECT_EQ(error->code(), expected_code) << error->what();                              \
    EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what(); \
  } while (false)

class Ranks : public ::testing::TestWithParam<Rank> {};

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
INSTANTIATE_TEST_SUITE_P(Endpoint, Ranks, ::testing::Values(1, 2, 3, 8));

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
  auto joining =
      std::async(std::launch::async, [&] { return error_of([&] { Endpoint::join(id, 2, 0, "", soon(), &failed); }); });
  failed = 1;
  const auto error = joining.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::Aborted) << error->what();
  release_unique_id(id);
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
  EXPECT_EQ(result.mismatch, "rank 2 left after 16 calls, rank 0 after 17");
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

TEST(Endpoint, StreamsAreKeptUnderTheirLabelUntilTaken) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_FALSE(all[1]->take_stream(0, "data 0"));
  const Fd out = all[0]->open_stream(1, "data 0", soon());
  const Fd other = all[0]->open_stream(1, "data 1", soon());
  EXPECT_FALSE(all[1]->take_stream(1, "data 0")) << "the peer is part of the label";
  const auto in = all[1]->take_stream(0, "data 0");
  ASSERT_TRUE(in);
  EXPECT_FALSE(all[1]->take_stream(0, "data 0"));
  send_all(out.get(), "hello", {soon(), nullptr});
  std::string heard(5, ' ');
  recv_all(in->get(), heard.data(), heard.size(), {soon(), nullptr});
  EXPECT_EQ(heard, "hello");
  EXPECT_ERROR(all[0]->open_stream(1, std::string(65, 'x'), soon()), Code::InvalidArgument, "at most 64");
  leave_all(all);
}

TEST(Endpoint, AStreamOverAPathBeginsAtItsAddress) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_TRUE(all[0]->paths(1).empty()) << "the peer runs on this host";
  const Address here{4, {127, 0, 0, 5}}, there{4, {127, 0, 0, 6}};
  const Fd out = all[0]->open_stream_over({"lo", here, there}, 1, "tcp:0:1", soon());
  const auto in = all[1]->take_stream(0, "tcp:0:1");
  ASSERT_TRUE(in);
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ASSERT_EQ(getpeername(in->get(), reinterpret_cast<sockaddr*>(&storage), &size), 0);
  const auto& peer = reinterpret_cast<const sockaddr_in6&>(storage);  // IPv4, as IPv6 shows it
  EXPECT_EQ(std::memcmp(peer.sin6_addr.s6_addr + 12, here.bytes.data(), 4), 0);
  leave_all(all);
}

TEST(Endpoint, ServicesAnswerWithBytesAndADescriptor) {
  Endpoints all = join_all(create_unique_id(), 2);
  all[1]->serve("segment", [](Rank from, const std::string& request) {
    Endpoint::Reply reply{request + " for " + std::to_string(from), Fd(memfd_create("segment", MFD_CLOEXEC))};
    EXPECT_EQ(ftruncate(reply.fd.get(), 4096), 0);
    return reply;
  });
  const auto reply = all[0]->ask(1, "segment", "arena", soon());
  EXPECT_EQ(reply.bytes, "arena for 0");
  EXPECT_EQ(lseek(reply.fd.get(), 0, SEEK_END), 4096);
  all[1]->serve("segment", nullptr);
  EXPECT_ERROR(all[0]->ask(1, "segment", "arena", Deadline::in(0.05)), Code::Timeout, "no service 'segment'");
  leave_all(all);
}

TEST(Endpoint, ARequestWaitsForAServiceThatOpensLater) {
  Endpoints all = join_all(create_unique_id(), 2);
  auto reply = std::async(std::launch::async, [&] { return all[0]->ask(1, "late", "", soon()).bytes; });
  all[1]->serve("late", [](Rank, const std::string&) { return Endpoint::Reply{"here", {}}; });
  EXPECT_EQ(reply.get(), "here");
  leave_all(all);
}

TEST(Endpoint, ABoardRepliesOrTheAnswerIsEmpty) {
  Endpoints all = join_all(create_unique_id(), 2);
  EXPECT_EQ(all[0]->ask_board(1, 5, soon()).get(), std::nullopt);
  all[1]->serve_board([](uint64_t call) { return "call " + std::to_string(call); });
  EXPECT_EQ(all[0]->ask_board(1, 5, soon()).get(), "call 5");
  all[1]->serve_board(nullptr);
  EXPECT_EQ(all[0]->ask_board(1, 5, soon()).get(), std::nullopt);
  leave_all(all);
}

TEST(Endpoint, PortScannersDoNotDisturbAJob) {
  const UniqueId id = create_unique_id();
  std::vector<Fd> scanners;
  for (int i = 0; i < 300; ++i) {  // most send nothing, and there are more than the acceptor keeps
    Fd scanner = start_connect(Address::loopback(), id.port);
    ASSERT_TRUE(scanner);
    await_ready(scanner.get(), POLLOUT, {soon(), nullptr});
    if (i % 10 == 1) send_now(scanner.get(), "GET / HTTP/1.0\r\n\r\n");
    if (i % 10 == 2) send_now(scanner.get(), std::string(100000, static_cast<char>(i)));
    scanners.push_back(std::move(scanner));
  }
  Endpoints all = join_all(id, 3);
  on_all(3, [&](Rank r) { EXPECT_EQ(all[static_cast<size_t>(r)]->exchange("x", soon()).size(), 3u); });
  leave_all(all);
  char byte = 0;
  for (size_t i = 2; i < scanners.size(); i += 10) {  // those that sent too much were closed at once
    EXPECT_NO_THROW(await_ready(scanners[i].get(), POLLIN | POLLRDHUP, {soon(), nullptr}));
    while (recv_now(scanners[i].get(), &byte, 1) > 0) {
    }
  }
}

}  // namespace
}  // namespace tutti::control
