// What breaks a link of verbs, and what a hostile peer may try: each ends in an error that names the peer.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>

#include "transports/ends.hpp"
#include "transports/fixtures.hpp"
#include "transports/verbs/engine.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::test {
namespace {

namespace verbs = transports::verbs;
using verbs::Connection;
using verbs::Delivery;
using verbs::Header;
using verbs::Notice;
using verbs::NoticeKind;
using verbs::Work;

std::unique_ptr<transports::Transport> make_engine(const transports::Context& context) {
  return std::make_unique<verbs::Engine>(context, make_fake_nic(), 2, "verbs");
}

/// Runs engines until one reports an error.
Status failure_of(const std::vector<TestRank*>& ranks) {
  const Deadline limit = Deadline::in(kWaitLimit);
  while (!limit.passed()) {
    for (TestRank* rank : ranks) {
      bool moved = false;
      if (Status status = rank->transport->progress(moved); !status.ok()) return status;
    }
  }
  return {};
}

struct VerbsFailure : testing::Test {
  ~VerbsFailure() override { fake_nic_rules() = {}; }
  void turn() {
    writing.turn();
    reading.turn();
  }
  RankGroup group{2, false};
  TestRank writing{group, 0, make_engine}, reading{group, 1, make_engine};
};

TEST_F(VerbsFailure, ABrokenQueuePairIsAnErrorThatNamesThePeer) {
  Writer writer(writing, 1, 3, 300000);
  Reader reader(reading, 0, 3);
  writer.write(0, payload_of(0, 300000));
  writing.until([&] { return reading.turn(), reader.ready(); }, "a message");
  ASSERT_TRUE(writer.try_write(1, payload_of(1, 300000)));
  deafen_fake_queues();
  const Status status = failure_of({&writing});
  EXPECT_EQ(status.code, Code::PeerFailed);
  for (const char* word : {"to rank 1", "link lane 3", "fake:1", "does not answer"}) {
    EXPECT_NE(status.text.find(word), std::string::npos) << status.text;
  }
  writing.transport->stop();
  EXPECT_TRUE(writer.returned());
}

TEST_F(VerbsFailure, AReceiverThatIsNeverReadyIsAnError) {
  fake_nic_rules().never_ready = true;
  Writer writer(writing, 1, 0, 0);
  Reader reader(reading, 0, 0);
  writer.write(0, payload_of(0, 8));
  const Status status = failure_of({&writing, &reading});
  EXPECT_EQ(status.code, Code::PeerFailed);
  EXPECT_NE(status.text.find("RNR"), std::string::npos) << status.text;
}

TEST_F(VerbsFailure, WithoutCompletionsMessagesArriveAndTheirMemoryIsKept) {
  fake_nic_rules().drop_all = true;
  Writer writer(writing, 1, 0, 300000);
  Reader reader(reading, 0, 0);
  const Payload payload = payload_of(0, 300000);
  writer.write_zcopy(0, payload);
  writing.until([&] { return reading.turn(), reader.ready(); }, "a message");
  reader.take(0, payload);
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_FALSE(writer.returned());
  writing.transport->stop();
  EXPECT_TRUE(writer.returned());
}

TEST_F(VerbsFailure, APeerThatClosesHavingReceivedAllIsNoError) {
  Writer writer(writing, 1, 0, 0);
  Reader reader(reading, 0, 0);
  for (uint64_t m = 0; m < 5; ++m) writer.write(m, payload_of(m, 8));
  for (uint64_t m = 0; m < 5; ++m) {
    writing.until([&] { return reading.turn(), reader.ready(); }, "a message");
    reader.take(m, payload_of(m, 8));
  }
  reading.transport.reset();
  for (int i = 0; i < 2000; ++i) writing.turn();
  writer.write(5, payload_of(5, 8));
  const Status status = failure_of({&writing});
  EXPECT_EQ(status.code, Code::PeerFailed);
  EXPECT_NE(status.text.find("rank 1"), std::string::npos) << status.text;
}

TEST_F(VerbsFailure, EventsOfQueuesAndDevicesAreErrorsAndThoseOfPortsAreRemembered) {
  Writer writer(writing, 1, 3, 300);
  Reader reader(reading, 0, 3);
  writer.write(0, payload_of(0, 300));
  writing.until([&] { return reading.turn(), reader.ready(); }, "a message");
  reader.take(0, payload_of(0, 300));
  raise_fake_events("the port is down", false);
  for (int i = 0; i < 1000; ++i) writing.turn();
  raise_fake_events("local work queue catastrophic error", true);
  const Status queue = failure_of({&writing});
  EXPECT_EQ(queue.code, Code::PeerFailed);
  for (const char* part :
       {"to rank 1 (link lane 3, fake:1)", "catastrophic", "last event of fake:1: the port is down"}) {
    EXPECT_NE(queue.text.find(part), std::string::npos) << queue.text;
  }
  raise_fake_events("local catastrophic error", false, true);
  const Status device = failure_of({&reading});
  EXPECT_EQ(device.code, Code::SystemError);
  EXPECT_NE(device.text.find("the device of fake:1 has failed"), std::string::npos) << device.text;
}

TEST_F(VerbsFailure, APeerThatClosesAfterAFailureIsAnError) {
  Writer writer(writing, 1, 0, 0);
  Reader reader(reading, 0, 0);
  writer.write(0, payload_of(0, 8));
  writing.until([&] { return reading.turn(), reader.ready(); }, "a message");
  writing.transport->stop();
  writing.transport.reset();
  const Status status = failure_of({&reading});
  EXPECT_EQ(status.code, Code::PeerFailed);
  EXPECT_NE(status.text.find("from rank 0"), std::string::npos) << status.text;
}

/// A rank that does not use the engine, but writes what it likes to the eager ring, or the feedback, of another's.
struct Hostile {
  explicit Hostile(TestRank& as, bool writes)
      : self(as),
        connection(*nic, {1 - as.rank, 0, 0, writes}),
        area(*nic, sizeof(verbs::Feedback), verbs::RegionUse::Words),
        eager_ring(*nic, verbs::kEagerRingBytes, verbs::RegionUse::Data) {
    if (writes)
      connection.open(as.wireup.open_stream(1, "verbs:0", Deadline::in(kWaitLimit)), 2, *area.region,
                      Deadline::in(kWaitLimit));
  }
  void greet(TestRank& victim) {
    const Deadline limit = Deadline::in(kWaitLimit);
    while (!connection.ready() && !limit.passed()) {
      if (!connection.has_fd()) {
        if (auto stream = self.wireup.take_stream(1 - self.rank, "verbs:0"))
          connection.attach(std::move(*stream), *eager_ring.region);
      }
      bool moved = false;
      connection.read_stream(moved).throw_if_bad();
      victim.turn();
    }
    ASSERT_TRUE(connection.ready());
  }
  void write(uint64_t offset, const void* data, uint32_t bytes, uint32_t notice) {
    Work work{.kind = Work::Kind::WriteNotice,
              .inlined = true,
              .count = 1,
              .notice = notice,
              .remote = connection.peer().area + offset,
              .remote_key = connection.peer().area_key};
    work.pieces[0] = {data, bytes, 0};
    connection.post(0, work).throw_if_bad();
  }
  TestRank& self;
  std::unique_ptr<verbs::Nic> nic = make_fake_nic();
  Connection connection;
  verbs::Buffer area, eager_ring;
};

uint64_t tag(Delivery delivery) { return 77 << 16 | static_cast<uint64_t>(delivery); }

TEST(VerbsHostilePeer, HeadersAndNoticesOfAWriterAreChecked) {
  struct Case {
    const char* name;
    Header header;
    Notice notice;
    const char* says;
  };
  const Case cases[] = {
      {"number", {9, tag(Delivery::Inline), 8, {}}, {}, "not the next message"},
      {"inline length", {1, tag(Delivery::Inline), 41, {}}, {}, "too long for its header"},
      {"huge inline length", {1, tag(Delivery::Inline), ~0ull, {}}, {}, "too long for its header"},
      {"eager length", {1, tag(Delivery::Eager), verbs::kEager + 1, {}}, {}, "too long for its slot"},
      {"buffer ahead", {1, tag(Delivery::Preposted), 9000, {}}, {}, "no destination"},
      {"buffer", {1, tag(Delivery::Rendezvous), 90000, {}}, {}, "no destination"},
      {"kind", {1, tag(static_cast<Delivery>(9)), 8, {}}, {}, "unknown kind"},
      {"skipped", {1, tag(Delivery::Inline), 8, {}}, {NoticeKind::Message, 0, 5}, "impossible notice"},
      {"stripe", {}, {NoticeKind::Stripe, 0, 1000}, "impossible notice"},
      {"size", {}, {NoticeKind::Announce, 27, 0}, "impossible notice"},
      {"announced number", {}, {NoticeKind::Announce, 20, 3}, "impossible notice"},
      {"long announced number", {}, {NoticeKind::Announce, 10, 1}, "impossible notice"},
      {"posted", {}, {NoticeKind::Posted, 0, 0}, "impossible notice"},
  };
  for (const Case& one : cases) {
    RankGroup group(2, false);
    TestRank mine(group, 0, make_engine), victim(group, 1, make_engine);
    Reader reader(victim, 0, 0);
    Hostile hostile(mine, true);
    hostile.greet(victim);
    hostile.write(0, &one.header, sizeof one.header, one.notice.word());
    const Status status = failure_of({&victim});
    EXPECT_EQ(status.code, Code::ProtocolError) << one.name << ": " << status.text;
    EXPECT_NE(status.text.find(one.says), std::string::npos) << one.name << ": " << status.text;
    EXPECT_NE(status.text.find("from rank 0"), std::string::npos) << one.name << ": " << status.text;
  }
}

TEST(VerbsHostilePeer, AWriterThatIgnoresItsCreditIsStopped) {
  RankGroup group(2, false);
  TestRank mine(group, 0, make_engine), victim(group, 1, make_engine);
  Reader reader(victim, 0, 0);  // reads nothing
  Hostile hostile(mine, true);
  hostile.greet(victim);
  Status status;
  for (uint64_t m = 0; m < 60 && status.ok(); ++m) {
    const Header header{m + 1, tag(Delivery::Inline), 8, {}};
    hostile.write(m % verbs::kSlots * verbs::kSlotBytes, &header, sizeof header,
                  Notice{NoticeKind::Message, 0, static_cast<uint32_t>(m)}.word());
    for (int i = 0; i < 100 && status.ok(); ++i) {
      bool moved = false;
      status = victim.transport->progress(moved);
    }
    EXPECT_TRUE(m >= verbs::kSlots || status.ok()) << status.text;
  }
  EXPECT_EQ(status.code, Code::ProtocolError);
  EXPECT_NE(status.text.find("no room"), std::string::npos) << status.text;
}

TEST(VerbsHostilePeer, AdvertsAndCreditsOfAReaderAreChecked) {
  using verbs::Advert;
  using verbs::AdvertKind;
  const Advert all[] = {
      {0, 1, verbs::kMaxPreposted, 0, 3, AdvertKind::Preposted},
      {17, 1, verbs::kMaxPreposted, 0, 3, AdvertKind::Preposted},
      {~0ull, 1, verbs::kMaxPreposted, 0, 3, AdvertKind::Preposted},
      {1, 1, verbs::kEager, 0, 3, AdvertKind::Preposted},
      {2, 1, 100000, 0, 3, AdvertKind::Buffer},
      {0, 1, 100000, 0, 3, AdvertKind::Posted},
      {1, 1, 100000, 0, 3, static_cast<AdvertKind>(9)},
  };
  for (const Advert& advert : all) {
    RankGroup group(2, false);
    TestRank victim(group, 0, make_engine), mine(group, 1, make_engine);
    Writer writer(victim, 1, 0, 100);
    Hostile hostile(mine, false);
    hostile.greet(victim);
    const uint64_t absurd = ~uint64_t{0} - 5;  // a count that nobody has published: ignored
    std::memcpy(hostile.eager_ring.data.get(), &absurd, sizeof absurd);
    hostile.write(offsetof(verbs::Feedback, adverts), &advert, sizeof advert, Notice{NoticeKind::Advert, 0, 0}.word());
    const Status status = failure_of({&victim});
    EXPECT_EQ(status.code, Code::ProtocolError) << static_cast<int>(advert.kind) << ' ' << advert.number;
    EXPECT_NE(status.text.find("to rank 1"), std::string::npos) << status.text;
  }
}

TEST(VerbsHostilePeer, AMessageThatIsLongerThanTheReadersDestinationIsNotSent) {
  RankGroup group(2, false);
  TestRank victim(group, 0, make_engine), mine(group, 1, make_engine);
  Writer writer(victim, 1, 0, 20000);
  Hostile hostile(mine, false);
  hostile.greet(victim);
  const verbs::Advert advert{1, 1, 9000, 0, 3, verbs::AdvertKind::Preposted};
  hostile.write(offsetof(verbs::Feedback, adverts), &advert, sizeof advert, Notice{NoticeKind::Advert, 0, 0}.word());
  writer.write(7, payload_of(0, 20000));
  const Status status = failure_of({&victim});
  EXPECT_EQ(status.code, Code::ProtocolError);
  EXPECT_NE(status.text.find("20000 bytes, is longer than those for which the peer has room, 9000"), std::string::npos)
      << status.text;
}

TEST(VerbsHostilePeer, GarbageOnTheStreamIsAnError) {
  const auto hello = [](const std::function<void(verbs::Hello&)>& change) {
    verbs::Hello valid{.area_bytes = sizeof(verbs::Feedback), .queues = 2};
    valid.nic.mtu = 1024;
    change(valid);
    return std::string(reinterpret_cast<const char*>(&valid), sizeof valid);
  };
  const std::string all[] = {
      std::string(sizeof(verbs::Hello), 'x'),
      hello([](verbs::Hello& h) { h.area_bytes = 1; }),
      hello([](verbs::Hello& h) { h.queues = 0; }),
      hello([](verbs::Hello& h) { h.queues = 9; }),
      hello([](verbs::Hello& h) { h.nic.mtu = 0; }),
      hello([](verbs::Hello& h) { h.queue[1].number = 1 << 24; }),
      "short",
  };
  for (const std::string& bytes : all) {
    RankGroup group(2, false);
    TestRank mine(group, 0, make_engine), victim(group, 1, make_engine);
    Reader reader(victim, 0, 0);
    Fd stream = mine.wireup.open_stream(1, "verbs:0", Deadline::in(kWaitLimit));
    ASSERT_EQ(::send(stream.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    if (bytes.size() < sizeof(verbs::Hello)) stream.reset();
    const Status status = failure_of({&victim});
    EXPECT_EQ(status.code, bytes.size() < sizeof(verbs::Hello) ? Code::PeerFailed : Code::ProtocolError) << status.text;
    EXPECT_NE(status.text.find("from rank 0"), std::string::npos) << status.text;
  }
}

}  // namespace
}  // namespace tutti::test
