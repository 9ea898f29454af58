// Requests on a window as a hostile rank of another host may send them: what it has no right to changes no byte, is an
// error that names rank and window, and leaves other ranks' streams as they are.
#include "rma/agent.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "rma/channel.hpp"
#include "rma/part.hpp"
#include "support/fake_wireup.hpp"

namespace tutti::rma {
namespace {

using What = Request::What;
using Outcome = Reply::Outcome;

constexpr uint64_t kWindow = 7, kOther = 9, kGone = 11, kBytes = 64;
constexpr Rank kRanks = 3;

WaitLimit soon() { return {Deadline::in(20), nullptr}; }

std::string job_name() {
  static int count = 0;
  return fmt::format("agent-{}-{}", getpid(), ++count);
}

/// A rank's end of a stream to the agent, with nothing that checks what it sends.
class Raw {
 public:
  Raw(const std::shared_ptr<Target>& target, Rank from) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    fd_ = Fd(ends[0]);
    Agent::of_this_process().serve(Fd(ends[1]), from, target);
  }
  void send(const Request& request, const std::string& bytes = "") {
    send_bytes({reinterpret_cast<const char*>(&request), sizeof request});
    send_bytes(bytes);
  }
  void send_bytes(std::string_view bytes) { tutti::send_all(fd_.get(), bytes, soon()); }
  Reply reply() {
    Reply reply;
    tutti::recv_all(fd_.get(), &reply, sizeof reply, soon());
    return reply;
  }
  Reply ask(const Request& request) {
    send(request);
    return reply();
  }
  Reply flush() { return ask({.what = What::Flush}); }
  std::string bytes(size_t count) {
    std::string bytes(count, '\0');
    tutti::recv_all(fd_.get(), bytes.data(), count, soon());
    return bytes;
  }
  /// Sends no more, and waits until the agent has closed the stream: it has done all that it will do.
  void end() {
    ::shutdown(fd_.get(), SHUT_WR);
    await_end();
  }
  void await_end() {
    char nothing[4096];
    for (const Deadline limit = Deadline::in(20); recv_now(fd_.get(), nothing, sizeof nothing) >= 0;) {
      ASSERT_FALSE(limit.passed()) << "the agent keeps the stream";
      pollfd entry{fd_.get(), POLLIN, 0};
      ::poll(&entry, 1, 100);
    }
  }

 private:
  Fd fd_;
};

/// A rank with windows: one in the middle of other memory, and one at an odd address.
class Victim {
 public:
  Victim() {
    target->expose(kWindow, {.memory = part(), .bytes = kBytes, .signals = lines.get()});
    target->expose(kOther, {.memory = part() + kBytes + 1, .bytes = kBytes, .signals = others.get()});
    target->expose(kGone, {.memory = part(), .bytes = kBytes, .signals = lines.get()});
    target->withdraw(kGone);
  }
  ~Victim() { target->close(); }

  std::byte* part() { return memory.data() + 4096; }
  bool has(uint64_t offset, std::string_view bytes) {
    target->synchronize();
    return std::memcmp(part() + offset, bytes.data(), bytes.size()) == 0;
  }
  bool is_untouched() const {
    target->synchronize();
    const auto is_set = [](const std::unique_ptr<SignalLine[]>& all) {
      return std::any_of(all.get(), all.get() + kRanks, [](const SignalLine& line) {
        return std::any_of(std::begin(line.arrived), std::end(line.arrived), [](auto& count) { return count != 0; });
      });
    };
    return !is_set(lines) && !is_set(others) &&
           std::all_of(memory.begin(), memory.end(), [](std::byte byte) { return byte == kByte; });
  }

  static constexpr std::byte kByte{0xa5};
  std::vector<std::byte> memory = std::vector<std::byte>(3 * 4096, kByte);
  std::unique_ptr<SignalLine[]> lines{new SignalLine[kRanks]()}, others{new SignalLine[kRanks]()};
  test::FakeWireup wireup{job_name(), 0, kRanks};
  const std::shared_ptr<Target> target = Target::open(wireup);
};

/// Ranges of `bytes` that do not lie in a part.
struct Range {
  const char* name;
  uint64_t window, offset, bytes;
  Outcome outcome;
};
const Range kOutside[] = {
    {"at the end", kWindow, kBytes, 1, Outcome::OutOfRange},
    {"over the end", kWindow, kBytes - 4, 8, Outcome::OutOfRange},
    {"longer than the part", kWindow, 0, kBytes + 1, Outcome::OutOfRange},
    {"before the part, if sums wrap", kWindow, UINT64_MAX - 3, 8, Outcome::OutOfRange},
    {"before the part, by half of all addresses", kWindow, uint64_t{1} << 63U, 8, Outcome::OutOfRange},
    {"no such window", kWindow + 1, 0, 8, Outcome::NoWindow},
    {"a window that was deregistered", kGone, 0, 8, Outcome::NoWindow},
};

TEST(Agent, DropsPutsThatLieOutsideAndSaysSoAtTheFlush) {
  Victim victim;
  Raw stream(victim.target, 1);
  for (const Range& range : kOutside) {
    SCOPED_TRACE(range.name);
    stream.send({.what = What::Put, .window = range.window, .offset = range.offset, .bytes = range.bytes},
                std::string(range.bytes, 'x'));
    stream.send({.what = What::Put, .window = 99, .bytes = 1}, "x");  // the first failure counts
    const Reply reply = stream.flush();
    EXPECT_EQ(reply.outcome, range.outcome);
    EXPECT_EQ(reply.value, range.window) << "the window of the put that failed";
    EXPECT_TRUE(victim.is_untouched());
    EXPECT_EQ(stream.flush().outcome, Outcome::Done) << "it was said once";
  }
  stream.send({.what = What::Put, .window = kWindow, .offset = kBytes - 4, .bytes = 4}, "puts");
  EXPECT_EQ(stream.flush().outcome, Outcome::Done);
  EXPECT_TRUE(victim.has(kBytes - 4, "puts")) << "the stream goes on";
}

TEST(Agent, SendsNoByteFromOutside) {
  Victim victim;
  Raw stream(victim.target, 1);
  for (const Range& range : kOutside) {
    SCOPED_TRACE(range.name);
    const Request request{.what = What::Get, .window = range.window, .offset = range.offset, .bytes = range.bytes};
    EXPECT_EQ(stream.ask(request).outcome, range.outcome);
  }
  const Request all{.what = What::Get, .window = kWindow, .offset = 1, .bytes = UINT64_MAX};
  EXPECT_EQ(stream.ask(all).outcome, Outcome::OutOfRange) << "offset + bytes is 0";
  EXPECT_EQ(stream.ask({.what = What::Get, .window = kWindow, .bytes = kBytes}).outcome, Outcome::Done);
  EXPECT_EQ(stream.bytes(kBytes), std::string(kBytes, static_cast<char>(Victim::kByte)));
  EXPECT_EQ(stream.reply().outcome, Outcome::Done) << "nothing came between, and the stream goes on";
}

TEST(Agent, ChangesNoWordOutside) {
  Victim victim;
  Raw stream(victim.target, 1);
  for (const What what : {What::Add, What::CompareSwap}) {
    for (const Range& range : kOutside) {
      SCOPED_TRACE(range.name);
      if (range.offset == 0 && range.outcome == Outcome::OutOfRange) continue;  // a word has 8 bytes, whatever it says
      Request request{.what = what, .window = range.window, .offset = range.offset, .bytes = range.bytes, .operand = 1};
      std::memset(&request.expected, 0xa5, sizeof request.expected);
      EXPECT_EQ(stream.ask(request).outcome, range.outcome);
      EXPECT_TRUE(victim.is_untouched());
    }
  }
  EXPECT_EQ(stream.ask({.what = What::Add, .window = kWindow, .offset = kBytes - 8}).value, 0xa5a5a5a5a5a5a5a5ULL);
}

TEST(Agent, CountsNoSignalInAWindowThatIsNotThere) {
  Victim victim;
  Raw stream(victim.target, 1);
  stream.send({.what = What::Signal, .window = kGone, .operand = 3});
  EXPECT_EQ(stream.flush().outcome, Outcome::NoWindow);
  EXPECT_TRUE(victim.is_untouched());
  stream.send({.what = What::Signal, .window = kWindow, .offset = UINT64_MAX, .bytes = UINT64_MAX, .operand = 3});
  EXPECT_EQ(stream.flush().outcome, Outcome::Done);
  EXPECT_EQ(victim.lines[1].arrived[3], 1U) << "in the line of the rank whose stream it is";
}

/// What no rank sends: the stream is closed, and the log says why.
struct Invalid {
  Request request;
  std::string why;
};

std::vector<Invalid> invalid_requests() {
  const std::string on_window = fmt::format("rank 1 sent an invalid request on the window of call {}, ", kWindow);
  const std::string on_other = fmt::format("rank 1 sent an invalid request on the window of call {}, ", kOther);
  const std::string on_none = "rank 1 sent an invalid request, ";
  return {
      {{.magic = Request::kMagic + 1, .window = kWindow}, on_none},
      {{.magic = 0}, on_none},
      {{.what = static_cast<What>(7), .window = kWindow, .bytes = 8}, "it is of no known kind: 7"},
      {{.what = static_cast<What>(UINT32_MAX)}, "it is of no known kind: 4294967295"},
      {{.what = What::Signal, .window = kWindow, .operand = kSignals}, on_window},
      {{.what = What::Signal, .window = kWindow, .operand = uint64_t{1} << 32U}, "there is no signal 4294967296"},
      {{.what = What::Add, .window = kWindow, .offset = 4, .operand = 1}, on_window},
      {{.what = What::CompareSwap, .window = kWindow, .offset = 1, .expected = 0xa5a5a5a5a5a5a5a5}, on_window},
      {{.what = What::Add, .window = kOther, .operand = 1}, on_other},  // its part begins at an odd address
      {{.what = What::Connect}, "an offer of 0 bytes"},
      {{.what = What::Connect, .bytes = transports::RemoteQueue::kMaxGreeting + 1}, "an offer of 257 bytes"},
      {{.what = What::Connect, .bytes = UINT64_MAX}, on_none},
  };
}

TEST(Agent, ClosesTheStreamOfAnInvalidRequestAndNamesRankAndWindow) {
  for (const Invalid& invalid : invalid_requests()) {
    SCOPED_TRACE(invalid.why);
    Victim victim;
    Raw hostile(victim.target, 1), honest(victim.target, 2);
    EXPECT_EQ(honest.flush().outcome, Outcome::Done);
    testing::internal::CaptureStderr();
    hostile.send(invalid.request);
    hostile.await_end();
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find(invalid.why), std::string::npos) << told;
    EXPECT_TRUE(victim.is_untouched());
    EXPECT_FALSE(victim.target->admit(1)) << "it gets no other stream";
    honest.send({.what = What::Put, .window = kWindow, .bytes = 4}, "more");
    EXPECT_EQ(honest.flush().outcome, Outcome::Done) << "other ranks go on";
    EXPECT_TRUE(victim.has(0, "more"));
  }
}

TEST(Agent, EndsWithAStreamThatEndsInTheMiddle) {
  const Request put{.what = What::Put, .window = kWindow, .offset = UINT64_MAX - 7, .bytes = UINT64_MAX};
  const std::string head(reinterpret_cast<const char*>(&put), sizeof put);
  for (const std::string& sent :
       {std::string(), head.substr(0, 1), head.substr(0, sizeof put - 1), head, head + std::string(100000, 'x')}) {
    SCOPED_TRACE(sent.size());
    Victim victim;
    Raw hostile(victim.target, 1), honest(victim.target, 2);
    hostile.send_bytes(sent);
    hostile.end();
    EXPECT_TRUE(victim.is_untouched());
    EXPECT_EQ(honest.flush().outcome, Outcome::Done);
  }
}

// ---- the other end: what a rank says of a refusal, and what it makes of an agent that is hostile

/// A rank whose window rank 0 has.
class Asking : public testing::Test {
 protected:
  const std::string job = job_name();
  test::FakeWireup theirs{job, 0, 2}, mine{job, 1, 2};
  std::atomic<uint32_t> stop{0};
  const Ends ends{stop, [](Rank) { return false; }};
  std::string into = std::string(8, '?');

  std::span<std::byte> target() { return std::as_writable_bytes(std::span(into)); }
  template <class Call>
  static std::string error_of(const Call& call, Code code) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "no error";
  }
};

TEST_F(Asking, TellsWhichRankHasRefusedInWhichWindow) {
  std::vector<std::byte> memory(kBytes);
  const auto target = Target::open(theirs);
  target->expose(kWindow, {.memory = memory.data(), .bytes = kBytes});
  Channel channel(mine, 0, ends, Deadline::in(20));
  const std::string refused =
      fmt::format("rank 0 says that the bytes do not lie in its part of the window of call {}", kWindow);
  const Request get{.what = What::Get, .window = kWindow, .offset = kBytes, .bytes = into.size()};
  EXPECT_EQ(error_of([&] { channel.ask(get, this->target(), 20); }, Code::InvalidArgument), refused);
  channel.send({.what = What::Put, .window = kWindow, .offset = kBytes, .bytes = 8}, this->target(), 20);
  EXPECT_EQ(error_of([&] { channel.flush(20); }, Code::InvalidArgument), refused);
  const Request unknown{.what = What::Add, .window = kOther};
  EXPECT_EQ(error_of([&] { channel.ask(unknown, {}, 20); }, Code::InvalidUsage),
            fmt::format("rank 0 has deregistered the window of call {}", kOther));
  EXPECT_NO_THROW(channel.flush(20));
  target->close();
}

TEST_F(Asking, EndsAtAnAnswerThatIsNone) {
  const auto text = [](const Reply& reply) { return std::string(reinterpret_cast<const char*>(&reply), sizeof reply); };
  const std::string fine = text({}), bytes(8, '!');
  const struct {
    const char* name;
    std::string sent;
    Code code;
  } cases[] = {
      {"another magic", text({.magic = 1}), Code::ProtocolError},
      {"an outcome that there is not", text({.outcome = static_cast<Outcome>(5)}), Code::ProtocolError},
      {"part of an answer", fine.substr(0, 7), Code::PeerFailed},
      {"no bytes", fine, Code::PeerFailed},
      {"some of the bytes", fine + "!!!", Code::PeerFailed},
      {"no end behind the bytes", fine + bytes, Code::PeerFailed},
      {"an end that is none", fine + bytes + text({.magic = 1}), Code::ProtocolError},
      {"a refusal of something else", text({.outcome = Outcome::Refused, .value = UINT64_MAX}), Code::InvalidArgument},
  };
  Fd agent;
  theirs.receive_streams(kStreamLabel, [&](Rank, Fd stream) { agent = std::move(stream); });
  stop = 1;  // so that nobody waits to hear that the peer has left
  for (const auto& hostile : cases) {
    SCOPED_TRACE(hostile.name);
    Channel channel(mine, 0, ends, Deadline::in(20));
    send_all(agent.get(), hostile.sent, soon());
    ::shutdown(agent.get(), SHUT_WR);
    const Request get{.what = What::Get, .window = kWindow, .bytes = into.size()};
    const std::string why = error_of([&] { channel.ask(get, target(), 20); }, hostile.code);
    EXPECT_NE(why.find("rank 0"), std::string::npos) << why;
  }
}

TEST_F(Asking, TakesNoMoreOfAnAnswerToAnOfferThanItMayHave) {
  Fd agent;
  theirs.receive_streams(kStreamLabel, [&](Rank, Fd stream) { agent = std::move(stream); });
  Channel channel(mine, 0, ends, Deadline::in(20));
  const Reply reply{.value = UINT64_MAX};
  send_all(agent.get(), {reinterpret_cast<const char*>(&reply), sizeof reply}, soon());
  send_all(agent.get(), std::string(Reply::kMaxText, 'x'), soon());
  EXPECT_NE(error_of([&] { channel.connect("an offer", 20); }, Code::Unsupported).find("rank 0 says: "),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::rma
