// The fault transport: links fail as planned.
#include "transports/fault/fault.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "support/scoped_env.hpp"
#include "transports/ends.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {
namespace {

using link::Poll;
using transports::FaultPlan;

/// A writer with faulty links and a reader with good ones, played by one thread.
struct Pair {
  Pair(const std::string& over, const std::string& faults)
      : writing(group, 0,
                [&](const transports::Context& context) {
                  return transports::make_fault(make_by_name(over, context), context,
                                                transports::parse_fault_plan(faults));
                }),
        reading(group, 1, [&](const transports::Context& context) { return make_by_name(over, context); }) {}

  RankGroup group{2, false};
  TestRank writing, reading;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds for `messages` messages over a link with these faults.
double seconds_for(uint64_t messages, const std::string& faults) {
  Pair pair("local", faults);
  Writer writer(pair.writing, 1, 0, 0);
  Reader reader(pair.reading, 0, 0);
  const auto start = std::chrono::steady_clock::now();
  uint64_t written = 0, read = 0;
  pair.writing.until(
      [&] {
        while (written < messages && writer.try_write(written, payload_of(written, 8))) ++written;
        for (; read < messages && reader.ready(); ++read) reader.take(read, payload_of(read, 8));
        return read == messages;
      },
      "all messages");
  return seconds_since(start);
}

TEST(Fault, LetsOneMessageThroughPerDelay) {
  const double took = seconds_for(20, "delay=5ms");
  EXPECT_GE(took, 20 * 5e-3);
  EXPECT_LT(took, 2 * 20 * 5e-3);
}

TEST(Fault, LetsMessagesFollowOneAnotherDuringTheLatency) {
  const double took = seconds_for(8, "latency=50ms");
  EXPECT_GE(took, 50e-3);
  EXPECT_LT(took, 4 * 50e-3) << "one after the other they would take 400 ms";
}

TEST(Fault, ReordersMessagesOfDifferentLinksOnly) {
  constexpr uint64_t kLinks = 6;
  Pair pair("local", "jitter=100ms");
  std::vector<Writer> writers;
  std::vector<Reader> readers;
  for (uint32_t link_lane = 0; link_lane < kLinks; ++link_lane) {
    writers.emplace_back(pair.writing, 1, link_lane, 0);
    readers.emplace_back(pair.reading, 0, link_lane);
  }
  for (Writer& writer : writers) {
    for (uint64_t m = 0; m < 2; ++m) writer.write(m, payload_of(m, 8));
  }
  std::vector<uint64_t> next(kLinks), order;
  pair.writing.until(
      [&] {
        for (uint64_t link = 0; link < kLinks; ++link) {
          if (next[link] == 2 || !readers[link].ready()) continue;
          readers[link].take(next[link], payload_of(next[link], 8));  // in order on its link
          ++next[link];
          order.push_back(link);
        }
        return order.size() == 2 * kLinks;
      },
      "all messages");
  EXPECT_FALSE(std::is_sorted(order.begin(), order.begin() + kLinks));
}

TEST(Fault, StallsALinkPermanently) {
  Pair pair("local", "stall=3");
  Writer writer(pair.writing, 1, 0, 0);
  Reader reader(pair.reading, 0, 0);
  for (uint64_t m = 0; m < 5; ++m) ASSERT_TRUE(writer.try_write(m, payload_of(m, 8)));
  for (int turn = 0; turn < 100; ++turn) pair.writing.turn();
  for (uint64_t m = 0; m < 3; ++m) reader.read(m, payload_of(m, 8));
  EXPECT_FALSE(reader.ready());
  EXPECT_FALSE(pair.writing.transport->flushed());
  pair.writing.transport->stop();
  EXPECT_TRUE(writer.returned());
  EXPECT_TRUE(pair.writing.transport->flushed());
}

TEST(Fault, AffectsOnlyTheNamedRankAndPeer) {
  for (const char* faults : {"stall=0,peer=2", "stall=0,rank=1"}) {
    Pair pair("local", faults);
    Writer writer(pair.writing, 1, 0, 0);
    Reader reader(pair.reading, 0, 0);
    ASSERT_TRUE(writer.try_write(1, payload_of(1, 8)));
    pair.writing.turn();
    EXPECT_TRUE(reader.ready()) << faults;
  }
}

struct Received {
  Poll poll = Poll::Empty;
  uint64_t tag = 0;
  Payload payload;
};

/// Sends two messages of `length` bytes, and corrupts message 1 as `what` says. Returns what arrives.
Received corrupted(const std::string& over, const std::string& what, uint64_t length) {
  Pair pair(over, "corrupt=" + what + "@1,seed=5");
  Writer writer(pair.writing, 1, 0, 1000);
  link::InLink in = pair.reading.transport->connect_in(0, 0, Deadline::in(kWaitLimit));
  for (uint64_t m = 0; m < 3; ++m) EXPECT_TRUE(writer.try_write(m, payload_of(m, length)));
  Received got;
  link::Header header{};
  link::Arrival arrival;
  for (uint64_t m = 0; m < 3; ++m) {
    pair.reading.until(
        [&] {
          pair.writing.turn();
          return HostWire::poll(in, header, arrival, m) != Poll::Empty;
        },
        "a message");
    const Poll poll = HostWire::poll(in, header, arrival, m);
    const Payload payload = poll == Poll::Ready ? Payload(arrival.data, arrival.data + header.length) : Payload{};
    if (m == 1) {
      got = {poll, header.tag, payload};
    } else {
      EXPECT_EQ(poll, Poll::Ready);
      EXPECT_EQ(header.tag, m);
      EXPECT_EQ(payload, payload_of(m, length)) << "only message 1 was to be corrupted";
    }
  }
  return got;
}

int bits_that_differ(const Payload& a, const Payload& b) {
  int bits = 0;
  for (size_t i = 0; i < a.size(); ++i) bits += __builtin_popcount(static_cast<unsigned>(a[i] ^ b[i]));
  return bits;
}

TEST(Fault, CorruptsTheNamedMessageInTheNamedWay) {
  for (const char* over : {"local", "shm", "tcp"}) {
    for (const uint64_t length : {uint64_t{8}, uint64_t{1000}}) {
      const Received payload = corrupted(over, "payload", length);
      ASSERT_EQ(payload.payload.size(), length);
      EXPECT_EQ(bits_that_differ(payload.payload, payload_of(1, length)), 1) << over << ' ' << length;
      EXPECT_EQ(payload.payload, corrupted(over, "payload", length).payload) << "the same seed, the same bit";
      const Received tag = corrupted(over, "tag", length);
      EXPECT_EQ(__builtin_popcountll(tag.tag ^ 1), 1);
      EXPECT_EQ(tag.payload, payload_of(1, length));
      EXPECT_EQ(corrupted(over, "length", length).payload.size(), length / 2);
    }
    EXPECT_EQ(corrupted(over, "length", 0).payload.size(), 1u);
  }
  EXPECT_EQ(corrupted("local", "header", 8).poll, Poll::Bad);
  EXPECT_EQ(corrupted("shm", "header", 1000).poll, Poll::Bad);
}

TEST(Fault, WrapsATransportAsTheEnvironmentSays) {
  RankGroup group(1, false);
  TestRank self(group, 0, LocalThreads::make);
  const transports::Context context{.wireup = &self.wireup, .arena = &self.arena};
  const auto wrapped = [&] {
    return std::string(transports::with_faults_of_environment(make_by_name("shm", context), context)->name());
  };
  EXPECT_EQ(wrapped(), "shm");
  {
    const ScopedEnv faults("TUTTI_FAULT", "delay=1ms");
    EXPECT_EQ(wrapped(), "fault(shm)");
  }
  {
    const ScopedEnv faults("TUTTI_FAULT", "delay=1ms,rank=7");
    EXPECT_EQ(wrapped(), "shm");
  }
  const ScopedEnv faults("TUTTI_FAULT", "oops");
  EXPECT_THROW(wrapped(), Error);
}

}  // namespace
}  // namespace tutti::test
