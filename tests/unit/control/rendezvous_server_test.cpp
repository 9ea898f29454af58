// What the rendezvous server and the acceptor make of peers that know the key and still misbehave.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/format.hpp"
#include "base/version.hpp"
#include "control/control_thread.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/endpoint.hpp"
#include "control/host.hpp"

namespace tutti::control {
namespace {

Deadline soon() { return Deadline::in(30); }
WaitLimit patient() { return {soon(), nullptr}; }

Fd connect(const UniqueId& id) { return dial({Address::loopback()}, id.port, id.key, patient()); }

/// The text with which a first message is refused.
std::string refusal(const UniqueId& id, const std::string& frame) {
  const Fd fd = connect(id);
  send_all(fd.get(), frame, patient());
  return unpack<Refused>(receive_frame(fd.get(), kMaxFirstFrame, patient())).text;
}

Register registration(Rank ranks, Rank rank) {
  Register request;
  request.version = version();
  request.ranks = ranks;
  request.rank = rank;
  request.wait_ms = 30000;
  request.me = ControlThread::get().home();
  request.me.process = 1;  // not this one
  return request;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string framed(std::string body) {
  std::string frame(4, '\0');
  for (size_t i = 0; i < 4; ++i) frame[i] = static_cast<char>(body.size() >> (8 * i));
  return frame + body;
}

TEST(RendezvousServer, FirstMessagesThatMakeNoSenseAreRefused) {
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

TEST(RendezvousServer, AFirstMessageThatClaimsToBeEndlessClosesTheConnection) {
  const UniqueId id = create_unique_id();
  const Fd fd = connect(id);
  send_all(fd.get(), "\xff\xff\xff\x7f", patient());
  EXPECT_THROW(receive_frame(fd.get(), kMaxFirstFrame, patient()), Error);
  release_unique_id(id);
}

/// Rank 0 is a true one; rank 1 registers, then sends `nonsense`. What rank 0 is told.
std::string told_of(const std::string& nonsense) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  const Fd fd = connect(id);
  send_all(fd.get(), pack(registration(2, 1)), patient());
  const auto endpoint = joining.get();
  send_all(fd.get(), nonsense, patient());
  const Deadline deadline = soon();
  while (endpoint->failed() == 0 && !deadline.passed()) std::this_thread::yield();
  endpoint->leave(0, soon());
  return endpoint->failure() ? endpoint->failure()->second : "nothing";
}

TEST(RendezvousServer, ARankThatTalksNonsenseIsNamedAndNothingElseHappens) {
  for (const std::string& nonsense :
       {framed(""), framed("\x7f"), framed(std::string(1, static_cast<char>(Kind::Goodbye))), pack(Table{}),
        std::string("\xff\xff\xff\x7f", 4), pack(Report{7}), pack(BoardAsk{9, 0, 0}),
        pack(Goodbye{0, 0, "", {{2, 1, 1}}}), pack(Goodbye{0, 0, "", {{1, 1, 1}}}),
        pack(Goodbye{0, 0, "", {{0, 1, 1}, {0, 1, 1}}})}) {
    const std::string text = told_of(nonsense);
    EXPECT_TRUE(contains(text, "rank 1 (process 1 on") && contains(text, "it sent nonsense")) << text;
  }
}

/// Rank 0 is a true one; rank 1, on another host, and rank 2 are not. What rank 0 is told when rank 1 reports that rank
/// `reported` has died.
std::string told_of_report(Rank reported) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 3, 0, "", soon()); });
  const Fd one = connect(id), two = connect(id);
  for (Rank rank : {1, 2}) {
    Register request = registration(3, rank);
    request.me.host = "elsewhere";
    send_all((rank == 1 ? one : two).get(), pack(request), patient());
  }
  const auto endpoint = joining.get();
  send_all(one.get(), pack(Report{reported}), patient());
  const Deadline deadline = soon();
  while (endpoint->failed() == 0 && !deadline.passed()) std::this_thread::yield();
  endpoint->leave(0, soon());
  return endpoint->failure() ? endpoint->failure()->second : "nothing";
}

TEST(RendezvousServer, ADeathIsBelievedFromItsOwnHostOnlyAndTheWitnessIsNamed) {
  const std::string believed = told_of_report(2), refused = told_of_report(0);
  EXPECT_EQ(believed.rfind("rank 2 (process 1 on ", 0), 0u) << believed;
  EXPECT_TRUE(contains(believed, "its process died before it left, as rank 1 (process 1 on")) << believed;
  EXPECT_EQ(refused.rfind("rank 1 (process 1 on ", 0), 0u) << refused;
  EXPECT_TRUE(contains(refused, "a report on rank 0, which runs on another host")) << refused;
}

TEST(RendezvousServer, ARankOutOfStepInAnExchangeIsNamed) {
  const std::string text = told_of(pack(Exchange{5, 1000, 0, "", "x"}));
  EXPECT_TRUE(contains(text, "rank 1 (process 1 on") && contains(text, "exchange 5")) << text;
}

/// Services and transports use the asker's rank as an index.
TEST(RendezvousServer, ARequestInTheNameOfNoRankReachesNoServiceAndNoStream) {
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

/// A member that says it is rank 1 of two and another process of this host; and rank 0, a true one.
struct Impostor {
  Impostor() {
    auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
    Register request = registration(2, 1);
    request.me.process = static_cast<uint32_t>(getppid());
    request.me.started = process_start(request.me.process);
    send_all(fd.get(), pack(request), patient());
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

/// Behind requests is memory that the asker writes to; and where it says, its process's is written to.
TEST(RendezvousServer, ARequestFromAnotherProcessThanTheRanksReachesNoService) {
  const Impostor impostor;
  impostor.endpoint->serve("who", [](Rank, const std::string&) { return Endpoint::Reply{"you", Fd()}; });
  const std::string truth = "came from process " + std::to_string(getpid());
  const Fd here = dial_unix(ControlThread::get().home().unix_name, impostor.id.key, patient()), tcp = connect(impostor.id);
  send_all(here.get(), pack(Ask{1, 0, "who", ""}), patient());
  send_all(tcp.get(), pack(Ask{1, 0, "who", ""}), patient());
  EXPECT_TRUE(contains(unpack<Refused>(receive_frame(here.get(), kMaxFirstFrame, patient())).text, truth));
  EXPECT_TRUE(contains(unpack<Refused>(receive_frame(tcp.get(), kMaxFirstFrame, patient())).text, "came from"));
}

TEST(RendezvousServer, WhoListensInTheNameOfAnotherProcessIsNotAsked) {
  const Impostor impostor;
  try {
    impostor.endpoint->ask(1, "who", "", soon());
    FAIL() << "it was asked";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "process " + std::to_string(getpid()) + " listens there")) << error.what();
  }
}

/// The next frame to a rank that is something else than a sign of life.
template <class M>
M next(const Fd& fd) {
  for (;;) {
    const std::string body = receive_frame(fd.get(), kMaxFirstFrame, patient());
    if (kind_of(body) != Kind::Ping) return unpack<M>(body);
  }
}

/// It was refused for its number of ranks, and says now that it cannot take part.
TEST(RendezvousServer, ARankBeyondTheNumberOfRanksEndsNobodysWait) {
  const UniqueId id = create_unique_id();
  const Fd first = connect(id), second = connect(id), offender = connect(id);
  Register request = registration(2, 0);
  request.me.process = ControlThread::get().home().process;  // so that it knows how many they are
  send_all(first.get(), pack(request), patient());
  EXPECT_TRUE(contains(refusal(id, pack(registration(5, 4))), "5 ranks, the others that there are 2"));
  call<Accepted>(offender.get(), Withdraw{5, 4, Code::InvalidArgument, "five"}, patient());
  send_all(second.get(), pack(registration(2, 1)), patient());
  EXPECT_EQ(next<Table>(second).members.size(), 2u);
}

/// Tickets are small numbers: any rank can guess those of another one's questions.
TEST(RendezvousServer, OnlyTheRankThatWasAskedAnswersForItsBoard) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 3, 0, "", soon()); });
  const Fd liar = connect(id), asked = connect(id);
  send_all(liar.get(), pack(registration(3, 1)), patient());
  send_all(asked.get(), pack(registration(3, 2)), patient());
  const auto endpoint = joining.get();
  next<Table>(asked);
  auto answer = endpoint->ask_board(2, 5, soon());
  const auto question = next<BoardAsk>(asked);
  send_all(liar.get(), pack(BoardReply{0, question.ticket, 1, "a lie"}), patient());
  send_all(liar.get(), pack(BoardAsk{2, 1, 1}), patient());
  EXPECT_EQ(next<BoardAsk>(asked).peer, 1);  // the lie went before it
  send_all(asked.get(), pack(BoardReply{0, question.ticket, 1, "the truth"}), patient());
  EXPECT_EQ(answer.get(), "the truth");
  endpoint->abort();
  endpoint->leave(0, soon());
}

TEST(RendezvousServer, AQuestionToARankThatDiesIsOver) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  Fd asked = connect(id);
  send_all(asked.get(), pack(registration(2, 1)), patient());
  const auto endpoint = joining.get();
  next<Table>(asked);
  auto answer = endpoint->ask_board(1, 5, Deadline::in(3600));
  next<BoardAsk>(asked);
  asked.reset();
  ASSERT_EQ(answer.wait_until(soon().at()), std::future_status::ready);
  EXPECT_EQ(answer.get(), std::nullopt);
  endpoint->leave(0, soon());
}

/// Copies of a virtual machine, or process 1 of two namespaces that cannot be told apart.
TEST(RendezvousServer, ProcessesThatSeemTheSameAreToldApartByWhatTheyDrew) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  const Fd copy = connect(id);
  Register request = registration(2, 1);
  request.me = ControlThread::get().home();
  ++request.me.nonce;
  send_all(copy.get(), pack(request), patient());
  const auto endpoint = joining.get();
  EXPECT_EQ(endpoint->process_id(0).process, endpoint->process_id(1).process);
  EXPECT_NE(endpoint->process_id(0), endpoint->process_id(1));
  endpoint->abort();
  endpoint->leave(0, soon());
}

/// Rank 0 is a true one and exchanges for split() as call 5; rank 1 gives as part of `call`. What rank 0 is told.
std::string told_in_exchange(uint64_t call, const std::string& what) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&] { return Endpoint::join(id, 2, 0, "", soon()); });
  const Fd fd = connect(id);
  Register request = registration(2, 1);
  request.me.host = "elsewhere";
  send_all(fd.get(), pack(request), patient());
  const auto endpoint = joining.get();
  send_all(fd.get(), pack(Exchange{0, 30000, call, what, "theirs"}), patient());
  std::string told;
  try {
    told = endpoint->exchange("ours", soon(), {5, "split()", nullptr}).back();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Mismatch);
    told = error.what();
  }
  endpoint->leave(0, soon());
  return told;
}

TEST(RendezvousServer, RanksThatExchangeForDifferentCallsGetNothingOfEachOther) {
  EXPECT_EQ(told_in_exchange(5, "split()"), "theirs");
  for (const auto& [call, what] : {std::pair(6, "split()"), std::pair(5, "shrink()")}) {
    const std::string text = told_in_exchange(static_cast<uint64_t>(call), what);
    EXPECT_TRUE(contains(text, fmt::format("{} as call {}", what, call)) && contains(text, "split() as call 5") &&
                contains(text, " where rank "))
        << text;
  }
}

TEST(RendezvousServer, TheRanksThatAreCompleteAreRightAboutTheirNumber) {
  const UniqueId id = create_unique_id();
  const Fd wrong = connect(id);
  send_all(wrong.get(), pack(registration(3, 1)), patient());
  const Fd first = connect(id), second = connect(id);
  send_all(first.get(), pack(registration(2, 0)), patient());
  send_all(second.get(), pack(registration(2, 1)), patient());
  const auto answer = unpack<Refused>(receive_frame(wrong.get(), kMaxFirstFrame, patient()));
  EXPECT_TRUE(contains(answer.text, "3 ranks, the others that there are 2")) << answer.text;
  EXPECT_EQ(unpack<Table>(receive_frame(first.get(), kMaxFirstFrame, patient())).members.size(), 2u);
}

TEST(RendezvousServer, ARankThatGoesBeforeAllAreThereIsToldToTheOthers) {
  const UniqueId id = create_unique_id();
  auto joining = std::async(std::launch::async, [&]() -> std::string {
    try {
      Endpoint::join(id, 3, 0, "", soon());
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  });
  // Whichever registers first: rank 0's word on the number of ranks counts once it is here, so wait for that.
  for (;;) {
    Fd fd = connect(id);
    send_all(fd.get(), pack(registration(4, 3)), patient());
    pollfd entry{fd.get(), POLLIN, 0};
    if (poll(&entry, 1, 10) == 1) break;  // refused: the number is known
  }
  {
    const Fd fd = connect(id);
    send_all(fd.get(), pack(registration(3, 1)), patient());
  }
  EXPECT_TRUE(contains(joining.get(), "rank 1 (process 1 on"));
}

/// What a true rank 0 of two hears while it waits.
std::string heard_while_waiting(const UniqueId& id) {
  try {
    Endpoint::join(id, 2, 0, "", soon());
  } catch (const Error& error) {
    return error.what();
  }
  return "joined";
}

TEST(RendezvousServer, ARankThatCannotTakePartEndsTheWaitOfTheOthersWithItsReason) {
  const UniqueId id = create_unique_id();
  auto waiting = std::async(std::launch::async, heard_while_waiting, id);
  withdraw(id, {2, 1, Code::SystemError, "rank 1 has no room"});
  const std::string text = waiting.get();
  EXPECT_TRUE(contains(text, "rank 1 has no room")) << text;
  EXPECT_TRUE(contains(heard_while_waiting(id), "rank 1 has no room")) << "those that come later hear it too";
}

TEST(RendezvousServer, ARankThatIsRefusedEndsTheWaitOfTheOthers) {
  const UniqueId id = create_unique_id();
  auto waiting = std::async(std::launch::async, [&] { return heard_while_waiting(id); });
  // Refused once rank 0, whose word on their number counts, is here.
  EXPECT_THROW(Endpoint::join(id, 3, 1, "", soon()), Error);
  const std::string text = waiting.get();
  EXPECT_TRUE(contains(text, "3 ranks, the others that there are 2")) << text;
}

TEST(RendezvousServer, ARankThatWentBeforeTheNumberWasCertainIsMissed) {
  const UniqueId id = create_unique_id();
  {
    const Fd fd = connect(id);
    send_all(fd.get(), pack(registration(2, 1)), patient());
  }
  const std::string text = heard_while_waiting(id);
  EXPECT_TRUE(contains(text, "rank 1 (process 1 on") && contains(text, "is gone")) << text;
}

TEST(RendezvousServer, AnotherHostsLoopbackAddressIsCalledWhatItIs) {
  UniqueId id = create_unique_id();
  UniqueId elsewhere = id;
  elsewhere.host = 1;
  elsewhere.addresses = {Address::loopback()};
  const Fd listener = listen_tcp(0);
  elsewhere.port = port_of(listener.get());
  elsewhere.key = random_key();
  try {
    Endpoint::join(elsewhere, 2, 1, "", Deadline::in(0.2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "nothing but its loopback address")) << error.what();
    EXPECT_TRUE(contains(error.what(), "TUTTI_INTERFACE")) << error.what();
    EXPECT_FALSE(contains(error.what(), "process has ended")) << error.what();
  }
  release_unique_id(id);
}

}  // namespace
}  // namespace tutti::control
