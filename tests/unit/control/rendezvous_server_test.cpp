// The rendezvous server and peers that know the key and violate the protocol.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "base/format.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/bootstrap/join.hpp"
#include "control/control_thread.hpp"
#include "control/host.hpp"
#include "rendezvous_peer.hpp"

namespace tutti::control {
namespace {

/// The text with which the first message is refused.
std::string refusal(const UniqueId& id, const std::string& frame) {
  const Fd fd = connect(id);
  send_all(fd.get(), frame, wait_limit());
  return unpack<Refused>(receive_frame(fd.get(), kMaxFirstFrame, wait_limit())).text;
}

std::string framed(std::string body) {
  std::string frame(4, '\0');
  for (size_t i = 0; i < 4; ++i) frame[i] = static_cast<char>(body.size() >> (8 * i));
  return frame + body;
}

TEST(RendezvousServer, InvalidFirstMessagesAreRefused) {
  const UniqueId id = create_unique_id();
  EXPECT_TRUE(contains(refusal(id, framed("")), "empty control message"));
  EXPECT_TRUE(contains(refusal(id, framed("\x7f")), "began with a control message of kind 127"));
  EXPECT_TRUE(contains(refusal(id, framed(std::string(1, static_cast<char>(Kind::Register)))), "ends early"));
  EXPECT_TRUE(contains(refusal(id, pack(Ping{})), "began with"));
  EXPECT_TRUE(contains(refusal(id, pack(OpenStream{0, 1, "x"})), "rank 1 is not in process"));
  EXPECT_TRUE(contains(refusal(id, pack(Ask{0, 1, "x", "y"})), "rank 1 is not in process"));
  EXPECT_TRUE(contains(refusal(id, pack(registration(0, 0))), "rank 0 of 0"));
  EXPECT_TRUE(contains(refusal(id, pack(registration(2, 2))), "rank 2 of 2"));
  Register old = registration(1, 0);
  old.version = "0.0.1";
  EXPECT_TRUE(contains(refusal(id, pack(old)), "runs Tutti 0.0.1"));
  release_unique_id(id);
}

TEST(RendezvousServer, AFirstMessageOverItsLimitClosesTheConnection) {
  const UniqueId id = create_unique_id();
  const Fd fd = connect(id);
  send_all(fd.get(), "\xff\xff\xff\x7f", wait_limit());
  EXPECT_THROW(receive_frame(fd.get(), kMaxFirstFrame, wait_limit()), Error);
  release_unique_id(id);
}

/// Rank 0 is an Endpoint; rank 1 registers, then sends `bytes`. Returns the failure that rank 0 receives.
std::string failure_after(const std::string& bytes) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  const Fd fd = connect(id);
  send_all(fd.get(), pack(registration(2, 1)), wait_limit());
  const auto endpoint = joining.get();
  send_all(fd.get(), bytes, wait_limit());
  const Deadline deadline = soon();
  while (endpoint->failed() == 0 && !deadline.passed()) std::this_thread::yield();
  endpoint->leave(0, soon());
  return endpoint->failure() ? endpoint->failure()->second : "nothing";
}

TEST(RendezvousServer, AnInvalidMessageFailsTheCommunicatorAndNamesTheRank) {
  for (const std::string& bytes :
       {framed(""), framed("\x7f"), framed(std::string(1, static_cast<char>(Kind::LeaveNotice))), pack(Table{}),
        std::string("\xff\xff\xff\x7f", 4), pack(Report{7}), pack(BoardAsk{9, 0, 0}),
        pack(LeaveNotice{0, 0, "", {{2, 1, 1}}}), pack(LeaveNotice{0, 0, "", {{1, 1, 1}}}),
        pack(LeaveNotice{0, 0, "", {{0, 1, 1}, {0, 1, 1}}})}) {
    const std::string text = failure_after(bytes);
    EXPECT_TRUE(contains(text, "rank 1 (process 1 on") && contains(text, "it sent an invalid message")) << text;
  }
}

/// Rank 0 is an Endpoint; ranks 1 (on another host) and 2 are only connections. Returns the failure that rank 0
/// receives when rank 1 reports that rank `reported` has died.
std::string failure_after_report(Rank reported) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 3, 0, "", soon()); });
  const Fd one = connect(id), two = connect(id);
  for (Rank rank : {1, 2}) {
    Register request = registration(3, rank);
    request.me.host = "elsewhere";
    send_all((rank == 1 ? one : two).get(), pack(request), wait_limit());
  }
  const auto endpoint = joining.get();
  send_all(one.get(), pack(Report{reported}), wait_limit());
  const Deadline deadline = soon();
  while (endpoint->failed() == 0 && !deadline.passed()) std::this_thread::yield();
  endpoint->leave(0, soon());
  return endpoint->failure() ? endpoint->failure()->second : "nothing";
}

TEST(RendezvousServer, ADeathReportCountsOnlyFromTheSameHostAndNamesTheReporter) {
  const std::string believed = failure_after_report(2), refused = failure_after_report(0);
  EXPECT_EQ(believed.rfind("rank 2 (process 1 on ", 0), 0u) << believed;
  EXPECT_TRUE(contains(believed, "its process died before it left, as rank 1 (process 1 on")) << believed;
  EXPECT_EQ(refused.rfind("rank 1 (process 1 on ", 0), 0u) << refused;
  EXPECT_TRUE(contains(refused, "a report names rank 0, which runs on another host")) << refused;
}

TEST(RendezvousServer, AWrongExchangeNumberNamesTheRank) {
  const std::string text = failure_after(pack(Exchange{5, 1000, 0, "", "x"}));
  EXPECT_TRUE(contains(text, "rank 1 (process 1 on") && contains(text, "exchange 5")) << text;
}

/// Services and transports use the asking rank as an index.
TEST(RendezvousServer, ARequestWithAnInvalidRankReachesNoServiceAndNoStream) {
  const UniqueId id = create_unique_id();
  const auto endpoint = Endpoint::join(id, 1, 0, "", soon());
  std::atomic<Rank> asker{kNoRank};
  endpoint->serve("who", [&](Rank from, const std::string&) {
    asker = from;
    return Endpoint::Reply{"you", Fd()};
  });
  for (const Rank from : {-1, 1, 100000, INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(contains(refusal(id, pack(Ask{from, 0, "who", ""})), "in the name of rank " + std::to_string(from)));
    EXPECT_TRUE(contains(refusal(id, pack(OpenStream{from, 0, "x"})), "in the name of rank " + std::to_string(from)));
  }
  EXPECT_EQ(asker, kNoRank);
  endpoint->leave(0, soon());
}

/// Registers as rank 1 of two with the identity of another process of this host. Rank 0 is an Endpoint.
struct Impostor {
  Impostor() {
    auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
    Register request = registration(2, 1);
    request.me.process = static_cast<uint32_t>(getppid());
    request.me.started = process_start(request.me.process);
    send_all(fd.get(), pack(request), wait_limit());
    endpoint = joining.get();
  }
  ~Impostor() {
    fd.reset();
    endpoint->abort();
    endpoint->leave(0, soon());
  }

  const UniqueId id = create_unique_id();
  Fd fd = connect(id);
  std::unique_ptr<Endpoint> endpoint;
};

/// A service gives the asker access to memory, and accesses memory of the process that the asker names.
TEST(RendezvousServer, ARequestFromAnotherProcessThanTheRanksIsRefused) {
  const Impostor impostor;
  impostor.endpoint->serve("who", [](Rank, const std::string&) { return Endpoint::Reply{"you", Fd()}; });
  const std::string truth = "came from process " + std::to_string(getpid());
  const Fd here = dial_unix(ControlThread::get().local_member().unix_name, impostor.id.key, wait_limit()),
           tcp = connect(impostor.id);
  send_all(here.get(), pack(Ask{1, 0, "who", ""}), wait_limit());
  send_all(tcp.get(), pack(Ask{1, 0, "who", ""}), wait_limit());
  EXPECT_TRUE(contains(unpack<Refused>(receive_frame(here.get(), kMaxFirstFrame, wait_limit())).text, truth));
  EXPECT_TRUE(contains(unpack<Refused>(receive_frame(tcp.get(), kMaxFirstFrame, wait_limit())).text, "came from"));
}

TEST(RendezvousServer, AListenerOfAnotherProcessThanTheRanksIsNotAsked) {
  const Impostor impostor;
  try {
    impostor.endpoint->ask(1, "who", "", soon());
    FAIL() << "it was asked";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "process " + std::to_string(getpid()) + " listens there")) << error.what();
  }
}

TEST(RendezvousServer, AProcessThatIsAnotherThanTheRanksIsNotConfirmed) {
  const Impostor impostor;
  EXPECT_NO_THROW(impostor.endpoint->confirm_process(0, soon())) << "its own";
  try {
    impostor.endpoint->confirm_process(1, soon());
    FAIL() << "it was confirmed";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "process " + std::to_string(getpid()) + " listens there")) << error.what();
  }
}

/// The next frame to a rank that says more than that the server is there.
template <class M>
M next(const Fd& fd) {
  for (;;) {
    const std::string body = receive_frame(fd.get(), kMaxFirstFrame, wait_limit());
    if (kind_of(body) != Kind::Ping && kind_of(body) != Kind::Welcome) return unpack<M>(body);
  }
}

/// It was refused for its number of ranks, and then withdraws.
TEST(RendezvousServer, AWithdrawalBeyondTheNumberOfRanksIsIgnored) {
  const UniqueId id = create_unique_id();
  const Fd first = connect(id), second = connect(id), offender = connect(id);
  Register request = registration(2, 0);
  request.me.process = ControlThread::get().local_member().process;  // so that the server accepts its number of ranks
  send_all(first.get(), pack(request), wait_limit());
  EXPECT_TRUE(contains(refusal(id, pack(registration(5, 4))), "5 ranks, the others that there are 2"));
  call<Accepted>(offender.get(), Withdraw{5, 4, Code::InvalidArgument, "five"}, wait_limit());
  send_all(second.get(), pack(registration(2, 1)), wait_limit());
  EXPECT_EQ(next<Table>(second).members.size(), 2u);
}

/// A communicator of 3 grows: rank 0 stays, and a stranger claims its place, is refused, and dies before it withdraws.
/// When rank 0 itself cannot take part, the others hear of that.
TEST(RendezvousServer, ARefusedClaimantThatDiesTakesNoOtherWithdrawalWithIt) {
  const Register stays = registration(3, 0);
  Register stranger = stays;
  stranger.me.nonce = stays.me.nonce + 1;
  ControlThread& control = ControlThread::get();
  const UniqueId growing = id_of(control.local_member(), random_key());
  open_server(control, growing.key, Places{.ranks = 3, .kept = {{0, stays.me}}});
  const Fd waits = connect(growing), withdraws = connect(growing);
  send_all(waits.get(), pack(registration(3, 1)), wait_limit());
  EXPECT_TRUE(contains(refusal(growing, pack(stranger)), "rank 0 of the communicator that grows stays"));
  call<Accepted>(withdraws.get(), Withdraw{3, 0, Code::OutOfMemory, "rank 0 has no memory", stays.me.nonce},
                 wait_limit());
  EXPECT_EQ(next<Refused>(waits).text, "rank 0 has no memory");
}

/// (Of two processes, and of another version: each is refused with its reason, and the one that fits is admitted.)
TEST(RendezvousServer, ACommunicatorThatGrowsAdmitsOneNewcomerForAPlaceAndNoOtherVersion) {
  const Register stays = registration(2, 0);
  ControlThread& control = ControlThread::get();
  const UniqueId growing = id_of(control.local_member(), random_key());
  open_server(control, growing.key, Places{.ranks = 2, .kept = {{0, stays.me}}});
  const Fd first = connect(growing), second = connect(growing);
  Register other = registration(2, 1);
  other.version = "0.0.1";
  EXPECT_TRUE(contains(refusal(growing, pack(other)), "runs Tutti 0.0.1, the process that made the unique id runs"));
  send_all(second.get(), pack(registration(2, 1)), wait_limit());
  unpack<Welcome>(receive_frame(second.get(), kMaxFirstFrame, wait_limit()));  // it is admitted
  Register late = registration(2, 1);
  late.me.process = 2;
  late.me.nonce += 2;
  const std::string taken = refusal(growing, pack(late));
  EXPECT_TRUE(contains(taken, "rank 1") && contains(taken, "process 1")) << taken;
  send_all(first.get(), pack(stays), wait_limit());
  const auto table = next<Table>(second);
  ASSERT_EQ(table.members.size(), 2u);
  EXPECT_EQ(table.members[1].process, 1);
}

/// A claimant that is refused and withdraws, as all do that live, disturbs nobody.
TEST(RendezvousServer, ARefusedClaimantsOwnWithdrawalIsIgnored) {
  const Register stays = registration(2, 0);
  Register stranger = stays;
  stranger.me.nonce = stays.me.nonce + 1;
  ControlThread& control = ControlThread::get();
  const UniqueId growing = id_of(control.local_member(), random_key());
  open_server(control, growing.key, Places{.ranks = 2, .kept = {{0, stays.me}}});
  const Fd first = connect(growing), second = connect(growing), withdraws = connect(growing);
  send_all(second.get(), pack(registration(2, 1)), wait_limit());
  EXPECT_TRUE(contains(refusal(growing, pack(stranger)), "rank 0 of the communicator that grows stays"));
  call<Accepted>(withdraws.get(), Withdraw{2, 0, Code::InvalidArgument, "refused", stranger.me.nonce}, wait_limit());
  send_all(first.get(), pack(stays), wait_limit());
  EXPECT_EQ(next<Table>(second).members.size(), 2u);
}

/// Tickets are small numbers: any rank can guess those of another rank's questions.
TEST(RendezvousServer, OnlyTheAskedRankAnswersForItsBoard) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 3, 0, "", soon()); });
  const Fd liar = connect(id), asked = connect(id);
  send_all(liar.get(), pack(registration(3, 1)), wait_limit());
  send_all(asked.get(), pack(registration(3, 2)), wait_limit());
  const auto endpoint = joining.get();
  next<Table>(asked);
  auto answer = endpoint->ask_board(2, 5, soon());
  const auto question = next<BoardAsk>(asked);
  send_all(liar.get(), pack(BoardReply{0, question.ticket, 1, "a lie"}), wait_limit());
  send_all(liar.get(), pack(BoardAsk{2, 1, 1}), wait_limit());
  EXPECT_EQ(next<BoardAsk>(asked).peer, 1);  // the false reply was sent before it
  send_all(asked.get(), pack(BoardReply{0, question.ticket, 1, "the truth"}), wait_limit());
  EXPECT_EQ(answer.get(), "the truth");
  endpoint->abort();
  endpoint->leave(0, soon());
}

TEST(RendezvousServer, AQuestionToARankThatDiesEnds) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  Fd asked = connect(id);
  send_all(asked.get(), pack(registration(2, 1)), wait_limit());
  const auto endpoint = joining.get();
  next<Table>(asked);
  auto answer = endpoint->ask_board(1, 5, Deadline::in(3600));
  next<BoardAsk>(asked);
  asked.reset();
  ASSERT_EQ(answer.wait_until(soon().at()), std::future_status::ready);
  EXPECT_EQ(answer.get(), std::nullopt);
  endpoint->leave(0, soon());
}

/// Copies of a virtual machine, or process 1 of two namespaces.
TEST(RendezvousServer, ProcessesWithEqualIdsDifferByTheirNonce) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  const Fd copy = connect(id);
  Register request = registration(2, 1);
  request.me = ControlThread::get().local_member();
  ++request.me.nonce;
  send_all(copy.get(), pack(request), wait_limit());
  const auto endpoint = joining.get();
  EXPECT_EQ(endpoint->process_id(0).process, endpoint->process_id(1).process);
  EXPECT_NE(endpoint->process_id(0), endpoint->process_id(1));
  endpoint->abort();
  endpoint->leave(0, soon());
}

/// Rank 0 exchanges for split() as call 5; rank 1 contributes to call `call`. Returns what rank 0 receives.
std::string result_of_exchange(uint64_t call, const std::string& what) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  const Fd fd = connect(id);
  Register request = registration(2, 1);
  request.me.host = "elsewhere";
  send_all(fd.get(), pack(request), wait_limit());
  const auto endpoint = joining.get();
  send_all(fd.get(), pack(Exchange{0, 30000, call, what, "theirs"}), wait_limit());
  std::string result;
  try {
    result = endpoint->exchange("ours", soon(), {5, "split()", nullptr}).back();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Mismatch);
    result = error.what();
  }
  return result;  // without a leave, for which it would wait: rank 1 does not leave either
}

TEST(RendezvousServer, ExchangesForDifferentCallsAreAMismatch) {
  EXPECT_EQ(result_of_exchange(5, "split()"), "theirs");
  for (const auto& [call, what] : {std::pair(6, "split()"), std::pair(5, "shrink()")}) {
    const std::string text = result_of_exchange(static_cast<uint64_t>(call), what);
    EXPECT_TRUE(contains(text, fmt::format("{} as call {}", what, call)) && contains(text, "split() as call 5") &&
                contains(text, " where rank "))
        << text;
  }
}

TEST(RendezvousServer, TheFirstCompleteNumberOfRanksCounts) {
  const UniqueId id = create_unique_id();
  const Fd wrong = connect(id);
  send_all(wrong.get(), pack(registration(3, 1)), wait_limit());
  const Fd first = connect(id), second = connect(id);
  send_all(first.get(), pack(registration(2, 0)), wait_limit());
  send_all(second.get(), pack(registration(2, 1)), wait_limit());
  const auto answer = next<Refused>(wrong);
  EXPECT_TRUE(contains(answer.text, "3 ranks, the others that there are 2")) << answer.text;
  EXPECT_EQ(next<Table>(first).members.size(), 2u);
}

TEST(RendezvousServer, ARankThatDisconnectsWhileOthersWaitFailsThem) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&]() -> std::string {
    try {
      Endpoint::join(id, 3, 0, "", soon());
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  });
  // Either may register first. Rank 0 decides the number of ranks once it has registered, so wait for that.
  for (;;) {
    Fd fd = connect(id);
    send_all(fd.get(), pack(registration(4, 3)), wait_limit());
    pollfd entry{fd.get(), POLLIN, 0};
    if (poll(&entry, 1, 10) == 1) break;  // refused: the number of ranks is decided
  }
  {
    const Fd fd = connect(id);
    send_all(fd.get(), pack(registration(3, 1)), wait_limit());
  }
  EXPECT_TRUE(contains(joining.get(), "rank 1 (process 1 on"));
}

}  // namespace
}  // namespace tutti::control
