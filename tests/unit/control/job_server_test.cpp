// The launcher's job server, as processes of the job see it, and hostile ones.
#include "control/elastic/job_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/control_thread.hpp"
#include "support/scoped_env.hpp"

namespace tutti::control {
namespace {

constexpr double kLimit = 30;

/// A process of the job, as far as the server knows: a connection.
class Process {
 public:
  explicit Process(const Key& key) : fd_(dial_unix(ControlThread::get().local_member().unix_name, key, limit())) {}

  template <class M>
  void send(const M& message) {
    send_all(fd_.get(), pack(message), limit());
  }
  void join(Rank slot, uint32_t incarnation = 0, const std::string& of_version = version()) {
    JoinJob request;
    request.version = of_version;
    request.slot = slot;
    request.incarnation = incarnation;
    request.me = ControlThread::get().local_member();
    request.me.nonce = nonce_;
    send(request);
  }
  /// The next message that is not a Ping or a JobNotice.
  std::string next() {
    for (;;) {
      std::string body = receive_frame(fd_.get(), kMaxFirstFrame, limit());
      const Kind kind = kind_of(body);
      if (kind == Kind::JobNotice) notice = unpack<JobNotice>(body);
      if (kind != Kind::Ping && kind != Kind::JobNotice) return body;
    }
  }
  template <class M>
  M next_as() {
    return unpack<M>(next());
  }
  std::string refusal() { return next_as<Refused>().text; }
  std::string not_admitted() { return next_as<NotAdmitted>().text; }
  void ready(uint32_t wait_ms = 20000) { send(MemberReady{++request_, wait_ms}); }
  /// The next notice.
  JobNotice hear() {
    for (;;) {
      const std::string body = receive_frame(fd_.get(), kMaxFirstFrame, limit());
      if (kind_of(body) == Kind::JobNotice) return unpack<JobNotice>(body);
    }
  }
  void make_id() {
    const auto asked = next_as<MakeId>();
    MadeId made;
    made.attempt = asked.attempt;
    made.hex = the_id();
    send(made);
  }
  static const std::string& the_id() {
    static const std::string hex = create_unique_id().hex();
    return hex;
  }
  bool is_closed() {
    try {
      for (;;) receive_frame(fd_.get(), kMaxFirstFrame, limit());
    } catch (const Error& error) {
      return error.code() == Code::PeerFailed;
    }
  }

  /// The same process, with another connection.
  Process reconnected(const Key& key) const {
    Process again(key);
    again.nonce_ = nonce_;
    again.request_ = request_;
    return again;
  }

  JobNotice notice;

 private:
  static WaitLimit limit() { return {Deadline::in(kLimit), nullptr}; }
  Fd fd_;
  uint64_t nonce_ = random_u64();
  uint32_t request_ = 0;
};

class JobServerTest : public testing::Test {
 protected:
  std::shared_ptr<JobServer> open(Rank slots) {
    static std::atomic<int> jobs{0};
    const std::string job = "job " + std::to_string(jobs++);
    return JobServer::open(job, "secret", slots, [lost = lost_](Rank slot, uint32_t) { lost->set_value(slot); });
  }
  /// A process that has been welcomed.
  static Process joined(const JobServer& server, Rank slot, uint32_t incarnation = 0, uint32_t wait_ms = 20000) {
    Process process(server.key());
    process.join(slot, incarnation);
    process.next_as<JobWelcome>();
    process.ready(wait_ms);
    return process;
  }
  static void expect_place(Process& process, uint32_t number, Rank rank, Rank ranks) {
    const auto place = process.next_as<Generation>();
    EXPECT_EQ(place.number, number);
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.ranks, ranks);
    EXPECT_EQ(place.hex, Process::the_id());
  }
  const std::shared_ptr<std::promise<Rank>> lost_ = std::make_shared<std::promise<Rank>>();
};

TEST_F(JobServerTest, NumbersAllWhenTheLastHasCome) {
  const auto server = open(3);
  Process second = joined(*server, 1), third = joined(*server, 2), first = joined(*server, 0);
  first.make_id();
  expect_place(first, 1, 0, 3);
  expect_place(second, 1, 1, 3);
  expect_place(third, 1, 2, 3);
}

TEST_F(JobServerTest, BeginsAgainWhereTheMakerOfTheIdDies) {
  const auto server = open(2);
  Process second = joined(*server, 1);
  {
    Process first = joined(*server, 0);
    first.next_as<MakeId>();
  }
  server->restart(0, 1);
  Process first = joined(*server, 0, 1);
  first.make_id();
  expect_place(first, 1, 0, 2);
  expect_place(second, 1, 1, 2);
}

TEST_F(JobServerTest, GoesOnWithoutASlotThatIsDropped) {
  const auto server = open(3);
  Process third = joined(*server, 2), first = joined(*server, 0);
  server->drop(1);
  first.make_id();
  expect_place(first, 1, 0, 2);
  expect_place(third, 1, 1, 2);
}

TEST_F(JobServerTest, AdmitsFurtherProcessesWithTheNextGeneration) {
  const auto server = open(1);
  Process first = joined(*server, 0);
  first.make_id();
  expect_place(first, 1, 0, 1);
  Process guest = joined(*server, kNoRank);
  while (first.hear().waiting != 1) {
  }
  first.ready();
  first.make_id();
  expect_place(first, 2, 0, 2);
  expect_place(guest, 2, 1, 2);
}

TEST_F(JobServerTest, AnIdThatCannotBeMadeIsToldToAll) {
  const auto server = open(2);
  Process first = joined(*server, 0), second = joined(*server, 1);
  first.next_as<MakeId>();
  MadeId none;
  none.attempt = 1;
  none.code = Code::SystemError;
  none.text = "no port";
  first.send(none);
  EXPECT_EQ(first.not_admitted(), "no port");
  EXPECT_EQ(second.not_admitted(), "no port");
}

TEST_F(JobServerTest, IdsOfOthersAreIgnored) {
  const auto server = open(2);
  Process first = joined(*server, 0), second = joined(*server, 1);
  const auto asked = first.next_as<MakeId>();
  MadeId made;
  made.attempt = asked.attempt;
  made.hex = create_unique_id().hex();
  second.send(made);  // which was not asked
  made.attempt = asked.attempt + 1;
  first.send(made);
  made.attempt = asked.attempt;
  made.hex = Process::the_id();
  first.send(made);
  expect_place(first, 1, 0, 2);
  expect_place(second, 1, 1, 2);
}

TEST_F(JobServerTest, NamesThoseThatDoNotCome) {
  const auto server = open(3);
  Process second = joined(*server, 1, 0, 50);
  EXPECT_EQ(second.not_admitted(), "it waited for ranks 0, 2, which have not come to make a communicator anew");
}

TEST_F(JobServerTest, TellsThoseThatWaitWhyTheJobEnds) {
  const auto server = open(2);
  Process second = joined(*server, 1);
  server->close("rank 0 has failed");
  EXPECT_EQ(second.not_admitted(), "rank 0 has failed");
  Process first = joined(*server, 0);  // and those that come later
  EXPECT_EQ(first.not_admitted(), "rank 0 has failed");
}

TEST_F(JobServerTest, RefusesProcessesThatDoNotFit) {
  const auto server = open(2);
  Process first = joined(*server, 0);
  const auto refused = [&](Rank slot, const std::string& of_version, const char* why) {
    Process process(server->key());
    process.join(slot, 0, of_version);
    const std::string text = process.refusal();
    EXPECT_NE(text.find(why), std::string::npos) << text;
  };
  refused(0, version(), "claims its place too");
  refused(2, version(), "the launcher has started 2");
  refused(-7, version(), "the launcher has started 2");
  refused(1, "9.9.9", "use one version");
  server->restart(1, 3);
  refused(1, version(), "which the launcher has given up");  // an older process of the rank
  Process second = joined(*server, 1, 3);
  server->drop(1);
  refused(1, version(), "which the launcher has given up");
}

TEST_F(JobServerTest, EndsTheConnectionOfAProcessThatTalksNonsense) {
  const auto server = open(2);
  for (uint32_t what = 0; what < 4; ++what) {
    Process process = joined(*server, 0, what);
    if (what == 0) process.send(Done{"?"});
    if (what == 1) process.send(JobWelcome{1});
    if (what == 2) process.send(Register{});
    MadeId made;
    made.hex = "no id";
    if (what == 3) process.send(made);
    EXPECT_TRUE(process.is_closed());
    server->restart(0, what + 1);
  }
}

TEST_F(JobServerTest, TakesAProcessBackWhoseConnectionWasLost) {
  const auto server = open(2);
  Process first = joined(*server, 0), second = joined(*server, 1);
  first.make_id();
  expect_place(first, 1, 0, 2);
  expect_place(second, 1, 1, 2);
  Process again = second.reconnected(server->key());
  again.join(1);
  again.next_as<JobWelcome>();
  again.ready();
  first.ready();
  first.make_id();
  expect_place(first, 2, 0, 2);
  expect_place(again, 2, 1, 2);
}

TEST_F(JobServerTest, AsksAgainWhenAProcessComesBackThatWasAskedForAnId) {
  const auto server = open(2);
  Process first = joined(*server, 0), second = joined(*server, 1);
  Process again = first.reconnected(server->key());  // the question may be lost with the old connection
  again.join(0);
  again.next_as<JobWelcome>();
  again.ready();
  again.make_id();
  expect_place(again, 1, 0, 2);
  expect_place(second, 1, 1, 2);
}

TEST_F(JobServerTest, GoesOnWithoutAProcessThatHasClosedItsConnectionAndLivesOn) {
  const auto server = open(2);
  Process second = joined(*server, 1);
  { const Process first = joined(*server, 0); }
  // Both may have been asked for an id before the end of the first one was noticed.
  second.make_id();
  expect_place(second, 1, 0, 1);
}

TEST_F(JobServerTest, TellsThoseOfAGenerationThatOneOfThemHasEnded) {
  const auto server = open(2);
  Process first = joined(*server, 0);
  {
    Process second = joined(*server, 1);
    first.make_id();
    expect_place(first, 1, 0, 2);
    expect_place(second, 1, 1, 2);
  }
  while (first.hear().broken != 1) {
  }
}

TEST_F(JobServerTest, ReportsAProcessThatIsSilent) {
  const test::ScopedEnv env("TUTTI_HEARTBEAT_TIMEOUT", "0.3");
  const auto server = open(1);
  const Process first = joined(*server, 0);
  auto lost = lost_->get_future();
  ASSERT_EQ(lost.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(lost.get(), 0);
}

TEST_F(JobServerTest, AnnouncesTheEnd) {
  const auto server = open(1);
  Process first = joined(*server, 0);
  first.make_id();
  expect_place(first, 1, 0, 1);
  server->announce_end(20);
  JobNotice notice = first.hear();
  while (notice.ends_in_ms == JobNotice::kDoesNotEnd) notice = first.hear();
  EXPECT_GT(notice.ends_in_ms, 10000u);
  EXPECT_LE(notice.ends_in_ms, 20000u);
}

}  // namespace
}  // namespace tutti::control
