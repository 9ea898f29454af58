// Ranks as processes: joining, dying and leaving.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <numeric>
#include <sstream>
#include <thread>

#include "base/socket.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/endpoint.hpp"
#include "control/messages.hpp"
#include "support/child.hpp"

namespace tutti::comm {
namespace {

using test::Child;
using test::Line;
using test::Role;

Deadline soon() { return Deadline::in(30); }

double seconds_since(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

/// Waits for the communicator's failure and reports it.
std::string await_failure(const control::Endpoint& endpoint) {
  const Deadline deadline = soon();
  while (endpoint.failed() == 0 && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto failure = endpoint.failure();
  return failure ? std::string(name_of(failure->first)) + ": " + failure->second : "no failure";
}

std::string ask_for_segment(control::Endpoint& endpoint, Rank peer) {
  const auto reply = endpoint.ask(peer, "segment", "please", soon());
  char text[7] = {};
  return pread(reply.fd.get(), text, 6, 0) == 6 ? reply.bytes + ": " + text : "no segment";
}

void serve_segment(control::Endpoint& endpoint) {
  endpoint.serve("segment", [](Rank from, const std::string& request) {
    control::Endpoint::Reply reply{request + " " + std::to_string(from), Fd(memfd_create("segment", MFD_CLOEXEC))};
    EXPECT_EQ(pwrite(reply.fd.get(), "shared", 6, 0), 6);
    return reply;
  });
}

/// A child that holds this process's connections open forever, as a data loader's worker may.
void fork_a_holder(Line& test) {
  const pid_t holder = fork();
  if (holder == 0) {
    for (;;) pause();
  }
  test.tell(std::to_string(holder));
}

control::JoinTerms terms_of_split(const control::Endpoint& parent, Rank leader) {
  control::JoinTerms terms;
  terms.stop = &parent.failed();
  terms.why = [&parent] { return Error(parent.failure()->first, parent.failure()->second); };
  for (Rank rank = 0; rank < parent.ranks(); ++rank) terms.names.push_back(rank);
  terms.parent = &parent;
  terms.leader = leader;
  return terms;
}

std::string split(const control::Endpoint& parent, Rank leader) {
  try {
    control::Endpoint::join(parent.split_id(leader, "test"), parent.ranks(), parent.rank(), "", soon(),
                            terms_of_split(parent, leader));
    return "joined";
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
}

/// Executes the test's commands, line by line.
void obey(control::Endpoint& endpoint, Line& test) {
  std::string word;
  for (;;) {
    std::istringstream line(test.receive(60));
    line >> word;
    if (word == "exchange") {
      const auto all = endpoint.exchange(std::to_string(endpoint.rank()), soon());
      test.tell(std::accumulate(all.begin(), all.end(), std::string()));
    } else if (word == "await_failure") {
      test.tell(await_failure(endpoint));
    } else if (word == "serve") {
      serve_segment(endpoint);
      endpoint.serve_board([](uint64_t call) { return "call " + std::to_string(call); });
      test.tell("serving");
    } else if (word == "ask") {
      test.tell(ask_for_segment(endpoint, 0));
    } else if (word == "board") {
      test.tell(endpoint.ask_board(0, 17, soon()).get().value_or("nothing"));
    } else if (word == "split" || word == "decline") {
      Rank leader = 0;
      line >> leader;
      if (word == "split") {
        test.tell(split(endpoint, leader));
      } else {
        control::Endpoint::withdraw(endpoint.split_id(leader, "test"), terms_of_split(endpoint, leader),
                                    {endpoint.ranks(), endpoint.rank(), Code::OutOfMemory,
                                     "no room on rank " + std::to_string(endpoint.rank())});
        test.tell("declined");
      }
    } else if (word == "await_left") {
      Rank of = 0;
      line >> of;
      while (!endpoint.left(of) && endpoint.failed() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      test.tell(endpoint.left(of) ? "it left" : endpoint.failure()->second);
    } else if (word == "fork") {
      fork_a_holder(test);
    } else if (word == "leave") {
      uint64_t calls = 0;
      line >> calls;
      test.tell("leaving");
      const control::LeaveResult result = endpoint.leave(calls, soon());
      const std::string not_complete = result.lost.empty() ? "incomplete" : "lost " + result.lost;
      test.tell(result.complete ? "complete " + result.mismatch : not_complete);
      return;
    } else {
      return;
    }
  }
}

int rank_main(const std::string& argument, Line& test) {
  std::istringstream words(argument);
  std::string hex;
  Rank ranks = 0, rank = 0;
  double wait = 30;
  words >> hex >> ranks >> rank >> wait;
  control::UniqueId id;
  if (hex == "make") {
    id = control::create_unique_id();
    test.tell(id.hex());
  } else {
    id = control::UniqueId::from_hex(hex);
  }
  try {
    const auto endpoint = control::Endpoint::join(id, ranks, rank, "", Deadline::in(wait));
    test.tell("joined");
    obey(*endpoint, test);
  } catch (const Error& error) {
    test.tell(std::string(name_of(error.code())) + ": " + error.what());
    return 1;
  }
  return 0;
}
const Role kRank("rank", rank_main);

/// Opens trunks to the process that made the id, until one is refused.
int trunks_main(const std::string& argument, Line& test) {
  const control::UniqueId id = control::UniqueId::from_hex(argument);
  std::vector<Fd> trunks;
  try {
    for (;;) {
      const WaitLimit limit{soon(), nullptr};
      Fd fd = control::dial({Address::loopback()}, id.port, id.key, limit);
      control::call<control::Accepted>(fd.get(), control::OpenTrunk{}, limit);
      trunks.push_back(std::move(fd));
    }
  } catch (const Error& error) {
    test.tell(std::to_string(trunks.size()) + " trunks, then " + error.what());
    test.receive();
  }
  return 0;
}
const Role kTrunks("trunks", trunks_main);

/// n processes; rank 0's process makes the id.
class Job {
 public:
  explicit Job(Rank n, const std::string& environment = "") {
    children_.emplace_back("rank", "make " + std::to_string(n) + " 0", environment);
    id_ = children_[0].receive();
    for (Rank r = 1; r < n; ++r) {
      children_.emplace_back("rank", id_ + " " + std::to_string(n) + " " + std::to_string(r), environment);
    }
    for (Child& child : children_) EXPECT_EQ(child.receive(), "joined");
  }
  Child& operator[](Rank rank) { return children_[static_cast<size_t>(rank)]; }
  std::vector<Child>& all() { return children_; }
  const std::string& id() const { return id_; }

 private:
  std::vector<Child> children_;
  std::string id_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// "rank 1 (process 4711"
std::string named(Job& job, Rank rank) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(job[rank].process());
}

class Processes : public testing::TestWithParam<Rank> {};

TEST_P(Processes, JoinExchangeAndLeave) {
  const Rank n = GetParam();
  Job job(n);
  std::string digits;
  for (Rank r = 0; r < n; ++r) digits += std::to_string(r);
  for (int round = 0; round < 3; ++round) {
    for (Child& child : job.all()) child.tell("exchange");
    for (Child& child : job.all()) EXPECT_EQ(child.receive(), digits);
  }
  for (Child& child : job.all()) child.tell("leave 3");
  for (Child& child : job.all()) {
    EXPECT_EQ(child.receive(), "leaving");
    EXPECT_EQ(child.receive(), "complete ");
    EXPECT_EQ(child.wait(), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Process, Processes, testing::Values(1, 2, 3, 8));

TEST(Process, ReachesServicesAndBoardsOfOthers) {
  Job job(3);
  job[0].tell("serve");
  EXPECT_EQ(job[0].receive(), "serving");
  for (Rank r : {1, 2}) {
    job[r].tell("ask");
    EXPECT_EQ(job[r].receive(), "please " + std::to_string(r) + ": shared");
    job[r].tell("board");
    EXPECT_EQ(job[r].receive(), "call 17");
  }
}

TEST(Process, ARequestWaitsForAServiceOfAnotherProcess) {
  Job job(2);
  job[1].tell("ask");
  job[0].tell("serve");
  EXPECT_EQ(job[1].receive(), "please 1: shared");
}

/// Rank 2, of a process that has died, would hold the rendezvous server. Its death may be told a moment later.
TEST(Process, ASplitNamesTheDeadRankThatWouldHoldItsServer) {
  Job job(3);
  const std::string victim = named(job, 2);
  job[2].signal(SIGSTOP);  // its death is to be news
  for (const Rank rank : {0, 1}) job[rank].tell("split 2");
  job[2].signal(SIGKILL);
  for (const Rank rank : {0, 1}) {
    const std::string error = job[rank].receive();
    EXPECT_TRUE(contains(error, "peer failed: ")) << error;
    EXPECT_TRUE(contains(error, victim)) << error;
  }
}

TEST(Process, TrunksOfPeersTakeHalfOfItsDescriptors) {
  const control::UniqueId id = control::create_unique_id();
  const auto endpoint = control::Endpoint::join(id, 1, 0, "", soon());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{200, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Child peer("trunks", id.hex());
  EXPECT_TRUE(contains(peer.receive(), "100 trunks, then 100 connections of peers for splits are open"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  endpoint->leave(0, soon());
}

/// A rank that cannot take part says so over the trunk, and the others hear why.
TEST(Process, ASplitIsToldWhoCannotTakePart) {
  Job job(3);
  job[1].tell("split 0");
  job[0].tell("decline 0");
  EXPECT_EQ(job[0].receive(), "declined");
  EXPECT_TRUE(contains(job[1].receive(), "no room on rank 0"));
  job[2].tell("split 0");
  EXPECT_TRUE(contains(job[2].receive(), "no room on rank 0")) << "also who comes later";
}

/// Each rank in turn, also the one with the rendezvous server: the others learn within a second which rank died.
TEST(Process, AKilledRankIsNamedWithinASecond) {
  for (Rank victim : {0, 1, 2}) {
    Job job(3);
    for (Child& child : job.all()) child.tell("await_failure");
    const auto start = Deadline::Clock::now();
    const std::string name = named(job, victim);
    job[victim].signal(SIGKILL);
    for (Rank r = 0; r < 3; ++r) {
      if (r == victim) continue;
      const std::string failure = job[r].receive();
      EXPECT_TRUE(contains(failure, "peer failed: " + name)) << failure;
      job[r].tell("leave 1");
    }
    EXPECT_LT(seconds_since(start), 1.0);
    for (Rank r = 0; r < 3; ++r) {
      if (r == victim) continue;
      EXPECT_EQ(job[r].wait(), 0);
    }
    EXPECT_LT(seconds_since(start), 4.0);
  }
}

/// A worker forked by the rank keeps its sockets open: only the end of the rank's process reveals its death.
TEST(Process, AKilledRankIsNoticedWhileAChildHoldsItsConnections) {
  for (Rank victim : {0, 1}) {
    Job job(2);
    job[victim].tell("fork");
    const pid_t holder = std::stoi(job[victim].receive());
    ASSERT_GT(holder, 0);
    const Rank other = 1 - victim;
    job[other].tell("await_failure");
    const auto start = Deadline::Clock::now();
    const std::string name = named(job, victim);
    job[victim].signal(SIGKILL);
    const std::string failure = job[other].receive();
    EXPECT_LT(seconds_since(start), 1.0);
    EXPECT_TRUE(contains(failure, name)) << failure;
    kill(holder, SIGKILL);
  }
}

TEST(Process, ARankStoppedForLongerThanTheHeartbeatIsLost) {
  Job job(2, "TUTTI_HEARTBEAT_TIMEOUT=0.3");
  job[0].tell("await_failure");
  job[1].signal(SIGSTOP);
  const std::string failure = job[0].receive();
  EXPECT_TRUE(contains(failure, named(job, 1)) && contains(failure, "nothing was heard of it")) << failure;
}

TEST(Process, TheLossOfTheRendezvousServersHostIsNoticed) {
  Job job(2, "TUTTI_HEARTBEAT_TIMEOUT=0.3");
  job[1].tell("await_failure");
  job[0].signal(SIGSTOP);
  const std::string failure = job[1].receive();
  EXPECT_TRUE(contains(failure, named(job, 0)) && contains(failure, "nothing was heard of it")) << failure;
}

/// Rank 1 leaves, and rank 0, whose process has the rendezvous server, knows it: what comes later is no failure of a
/// communicator in use.
void leave_first(Job& job) {
  job[1].tell("leave 5");
  EXPECT_EQ(job[1].receive(), "leaving");
  job[0].tell("await_left 1");
  EXPECT_EQ(job[0].receive(), "it left");
}

TEST(Process, ARankThatHasLeftHearsThatTheRendezvousServersProcessWasStopped) {
  Job job(2, "TUTTI_HEARTBEAT_TIMEOUT=0.3");
  leave_first(job);
  job[0].signal(SIGSTOP);
  const std::string lost = job[1].receive();
  EXPECT_TRUE(contains(lost, "lost " + named(job, 0)) && contains(lost, "nothing was heard of it")) << lost;
}

TEST(Process, ARankThatHasLeftHearsThatTheRendezvousServersProcessDied) {
  Job job(2);
  leave_first(job);
  job[0].signal(SIGKILL);
  const std::string lost = job[1].receive();
  EXPECT_TRUE(contains(lost, "lost " + named(job, 0))) << lost;
}

/// Every order of leaving, also with the rendezvous server's process first: each rank learns that all have left, and
/// none gets an error.
TEST(Process, AnyOrderOfLeavingSucceeds) {
  std::vector<Rank> order{0, 1, 2};
  do {
    Job job(3);
    for (Rank r : order) {
      job[r].tell("leave 5");
      EXPECT_EQ(job[r].receive(), "leaving");
    }
    for (Rank r : order) {
      EXPECT_EQ(job[r].receive(), "complete ");
      EXPECT_EQ(job[r].wait(), 0);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Process, DifferentNumbersOfCallsAreReportedToAllWaitingRanks) {
  Job job(3);
  for (Rank r = 0; r < 3; ++r) job[r].tell(r == 2 ? "leave 16" : "leave 17");
  for (Child& child : job.all()) {
    EXPECT_EQ(child.receive(), "leaving");
    const std::string heard = child.receive();
    EXPECT_TRUE(heard == "complete rank 2 left after 16 calls, rank 0 after 17" ||
                heard == "complete rank 2 left after 16 calls, rank 1 after 17")
        << heard;
  }
}

TEST(Process, AKillAfterLeavingIsHarmless) {
  Job job(3);
  job[1].tell("leave 2");
  EXPECT_EQ(job[1].receive(), "leaving");
  job[0].tell("await_left 1");
  EXPECT_EQ(job[0].receive(), "it left");
  job[1].signal(SIGKILL);
  EXPECT_EQ(job[1].wait(), -SIGKILL);
  for (Rank r : {0, 2}) {
    job[r].tell("leave 2");
    EXPECT_EQ(job[r].receive(), "leaving");
  }
  for (Rank r : {0, 2}) {
    EXPECT_EQ(job[r].receive(), "complete ");
    EXPECT_EQ(job[r].wait(), 0);
  }
}

TEST(Process, ASecondClaimToARankIsRefusedAndTheOthersContinue) {
  Job job(2);
  Child second("rank", job.id() + " 2 1");
  const std::string refusal = second.receive();
  EXPECT_TRUE(contains(refusal, "invalid argument") && contains(refusal, "rank 1 is taken by process")) << refusal;
  for (Child& child : job.all()) child.tell("exchange");
  for (Child& child : job.all()) EXPECT_EQ(child.receive(), "01");
}

TEST(Process, AWithdrawingRankEndsTheWaitOfAll) {
  const control::UniqueId id = control::create_unique_id();
  std::string text;
  std::thread here([&] {
    try {
      control::Endpoint::join(id, 3, 0, "", soon());
    } catch (const Error& error) {
      text = error.what();
    }
  });
  Child other("rank", id.hex() + " 3 1 0.2");
  EXPECT_TRUE(contains(other.receive(), "missing: "));
  here.join();
  EXPECT_TRUE(contains(text, "within the 0.2 s that rank 1 waits; missing: rank")) << text;
}

TEST(Process, AForkedChildGetsAnErrorAndCanStartItsOwnCommunicators) {
  const auto endpoint = control::Endpoint::join(control::create_unique_id(), 1, 0, "", soon());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text = "no error";
    try {
      endpoint->exchange("x", soon());
    } catch (const Error& error) {
      text = error.what();
    }
    const bool left = !endpoint->leave(1, soon()).complete;
    text += left ? " / not left" : " / left";
#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer allows no new threads in a child of a multi-threaded process
    const auto anew = control::Endpoint::join(control::create_unique_id(), 1, 0, "", soon());
    if (anew->process_id(0).nonce == endpoint->process_id(0).nonce) text += " / not told apart";
    text += anew->exchange("z", soon()).at(0) == "z" && anew->leave(1, soon()).complete ? " / anew" : " / no";
#else
    text += " / anew";
#endif
    [[maybe_unused]] const ssize_t put = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text(1000, '\0');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(contains(text, "was forked from process " + std::to_string(getpid()))) << text;
  EXPECT_TRUE(contains(text, "/ not left / anew")) << text;
  EXPECT_EQ(endpoint->exchange("y", soon()).at(0), "y") << "the parent goes on";
  EXPECT_TRUE(endpoint->leave(1, soon()).complete);
}

}  // namespace
}  // namespace tutti::comm
