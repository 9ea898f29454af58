// The parts of `tutti run` that start no process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>

#include "tools/run/binding.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/meeting.hpp"
#include "tools/run/output.hpp"
#include "tools/run/remote.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

/// "a0/2 a1/2 b0/1": host, local rank, local size of each rank.
std::string placed(const std::string& hosts, int ranks) {
  std::string text;
  for (const Placement& p : place(parse_hosts(hosts), ranks, "me.example.org")) {
    text += (text.empty() ? "" : " ") + (p.host.empty() ? "here" : p.host) + std::to_string(p.local_rank) + "/" +
            std::to_string(p.local_size);
  }
  return text;
}

TEST(Hosts, FillTheirSlotsInTheOrderGiven) {
  EXPECT_EQ(placed("a:2,b:3", 4), "a0/2 a1/2 b0/2 b1/2");
  EXPECT_EQ(placed("a:2,b:3", 1), "a0/1");
  EXPECT_EQ(placed("a:2,b", 0), "a0/2 a1/2 b0/1");
}

TEST(Hosts, WithoutSlotsShareEvenly) {
  EXPECT_EQ(placed("a,b", 5), "a0/3 a1/3 a2/3 b0/2 b1/2");
  EXPECT_EQ(placed("a,b:1,c", 4), "a0/2 a1/2 b0/1 c0/1");
  EXPECT_EQ(placed("a,b", 0), "a0/1 b0/1");
}

TEST(Hosts, NamesOfThisHostNeedNoSsh) {
  EXPECT_EQ(placed("localhost:1,me:1,me.example.org:1,b:1", 0), "here0/3 here1/3 here2/3 b0/1");
  EXPECT_EQ(placed("127.0.0.1,127.0.1.1:2,b", 0), "here0/3 here1/3 here2/3 b0/1");
}

TEST(Hosts, RankZerosAddressIsReachableFromTheOthers) {
  const auto meeting = [](const std::string& hosts) { return meeting_host(place(parse_hosts(hosts), 0, "me"), "me"); };
  EXPECT_EQ(meeting("me:2"), "");
  EXPECT_EQ(meeting("user@a,me"), "a");
  const std::string here = meeting("me,no.such.host.invalid");
  EXPECT_EQ(here.find("127."), std::string::npos) << here;
  EXPECT_FALSE(here.empty());
}

TEST(Binding, GoesRoundTheCores) {
  const std::vector<Cores> cores = {{0, 4}, {1}};
  auto three = place_here(3);
  EXPECT_EQ(bind_ranks(three, Binding::Auto, cores), "ranks are not bound to cores: 3 ranks, 2 cores");
  EXPECT_FALSE(three[0].cpus);
  bind_ranks(three, Binding::Core, cores);
  EXPECT_EQ(to_text(*three[0].cpus), "0,4");
  EXPECT_EQ(to_text(*three[1].cpus), "1");
  EXPECT_EQ(to_text(*three[2].cpus), "0,4");
  auto two = place_here(2);
  bind_ranks(two, Binding::Auto, cores);
  EXPECT_TRUE(two[0].cpus);
}

TEST(LinePrefixer, HoldsAnIncompleteLineBackUntilItsEnd) {
  LinePrefixer lines("[1] ");
  EXPECT_EQ(lines.add("a\nb"), "[1] a\n");
  EXPECT_EQ(lines.add("c"), "");
  EXPECT_EQ(lines.add("\n\n"), "[1] bc\n[1] \n");
  EXPECT_EQ(lines.add("end"), "");
  EXPECT_EQ(lines.finish(), "[1] end\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LinePrefixer, LimitsTheLengthOfABufferedLine) {
  LinePrefixer lines("");
  EXPECT_EQ(lines.add(std::string(LinePrefixer::kMaxLine - 1, 'x')), "");
  EXPECT_EQ(lines.add("x").size(), LinePrefixer::kMaxLine + 1);
}

/// A pipe whose reader reads only when told to.
struct SlowReader {
  SlowReader() { EXPECT_EQ(pipe(ends), 0); }
  ~SlowReader() {
    close(ends[0]);
    close(ends[1]);
  }
  /// All that is in the pipe.
  std::string take() {
    int bytes = 0;
    ioctl(ends[0], FIONREAD, &bytes);
    std::string text(static_cast<size_t>(bytes), 0);
    EXPECT_EQ(read(ends[0], text.data(), text.size()), bytes);
    return text;
  }
  int ends[2];
};

TEST(Sink, KeepsWhatItsReaderDoesNotTakeYet) {
  SlowReader reader;
  Sink sink(reader.ends[1]);
  std::string all;
  for (int line = 0; !sink.blocked() && line < 1000000; ++line) {
    all += "line " + std::to_string(line) + "\n";
    EXPECT_TRUE(sink.put("line " + std::to_string(line) + "\n"));
  }
  const std::string large(300000, 'x');
  EXPECT_TRUE(sink.put(large));
  std::string taken;
  for (int turn = 0; sink.blocked() && turn < 1000; ++turn) {
    taken += reader.take();
    EXPECT_TRUE(sink.pump());
  }
  EXPECT_EQ(taken + reader.take(), all + large);
  EXPECT_EQ(fcntl(reader.ends[1], F_GETFL) & O_NONBLOCK, 0) << "others share that descriptor";
}

TEST(Sink, KnowsThatItsReaderIsGone) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  SlowReader reader;
  Sink sink(reader.ends[1]);
  while (!sink.blocked()) EXPECT_TRUE(sink.put(std::string(10000, 'x')));
  close(reader.ends[0]);
  EXPECT_FALSE(sink.pump());
  EXPECT_FALSE(sink.blocked());
  EXPECT_FALSE(sink.put("y"));
  reader.ends[0] = -1;
  std::signal(SIGPIPE, before);
}

TEST(Remote, QuotesForTheShell) { EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'"); }

TEST(Remote, KnowsTheLineWithTheProcessId) {
  EXPECT_EQ(remote_pid("tutti-run-pid 71"), 71);
  for (const char* other : {"tutti-run-pid", "tutti-run-pid 1", "tutti-run-pid -5", "tutti-run-pid 7x", "hello"}) {
    EXPECT_FALSE(remote_pid(other)) << other;
  }
}

TEST(Remote, RefusesAValueOfSeveralLines) {
  Job job;
  job.ranks = place_here(1);
  job.exported = {"A=one\ntwo"};
  EXPECT_THROW(remote_preamble(job, 0), Error);
}

}  // namespace
}  // namespace tutti::tools
