// Messages that are cut into stripes, one for each stream of a link.
#include <cstring>
#include <iterator>

#include "transports/tcp/sender.hpp"
#include "unit/transports/tcp/ends.hpp"

namespace tutti::transports::tcp {
namespace {

std::string stripe(uint64_t number, uint64_t length, uint32_t part, uint32_t parts, const std::string& message) {
  unsigned char bytes[kHeaderBytes];
  write_header(bytes, {number, 5, length, part, parts});
  const Stripe range = stripe_of(length, part, parts);
  return std::string(reinterpret_cast<const char*>(bytes), sizeof bytes) + message.substr(range.begin, range.bytes);
}

TEST(TcpStripes, CoverAMessage) {
  for (const uint64_t length : {uint64_t{4096}, uint64_t{4097}, uint64_t{70001}, kMaxMessage}) {
    for (uint32_t parts = 1; parts <= kMaxStreams; ++parts) {
      uint64_t end = 0;
      for (uint32_t part = 0; part < parts; ++part) {
        const Stripe range = stripe_of(length, part, parts);
        EXPECT_EQ(range.begin, end);
        end = range.begin + range.bytes;
      }
      EXPECT_EQ(end, length) << parts << " parts";
    }
  }
}

/// A receiver with two streams.
struct TcpStripedReceiver : TcpReceiver {
  TcpStripedReceiver() { receiver.attach(std::move(second.theirs)); }
  Status feed_second(const std::string& bytes) {
    EXPECT_EQ(::send(second.ours.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    receiver.wake(1, false);
    return progress();
  }
  const std::string text = [] {
    std::string made(50000, ' ');
    for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(i * 7 + i / 1000);
    return made;
  }();
  Stream second;
};

TEST_F(TcpStripedReceiver, PutsStripesTogetherInAnyOrder) {
  const uint64_t length = text.size();
  ASSERT_TRUE(feed_second(stripe(1, length, 1, 2, text) + stripe(3, length, 1, 2, text)).ok());
  EXPECT_EQ(take(), "(none)");
  feed(header(0, 1, 3) + "abc");
  feed(stripe(1, length, 0, 2, text) + header(2, 2, 2) + "de" + stripe(3, length, 0, 2, text));
  ASSERT_TRUE(progress().ok());
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), "abc");
  EXPECT_EQ(take(), text);
  EXPECT_EQ(take(), "de");
  EXPECT_EQ(take(), text);
  EXPECT_EQ(take(), "(none)");
}

TEST_F(TcpStripedReceiver, LetsAStreamThatIsAheadWait) {
  const uint64_t length = text.size(), ahead = 2 * link::kCapacity;
  ASSERT_TRUE(feed_second(stripe(ahead, length, 1, 2, text)).ok());
  EXPECT_FALSE(receiver.busy()) << "it is too far ahead";
  for (uint64_t m = 0; m < ahead; ++m) {
    feed(header(m, 1, 1) + "x");
    ASSERT_TRUE(progress().ok());
    ASSERT_EQ(take(), "x");
  }
  feed(stripe(ahead, length, 0, 2, text));
  ASSERT_TRUE(progress().ok());
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), text);
}

TEST_F(TcpStripedReceiver, KeepsRoomForTheOldestMessage) {
  constexpr uint64_t kLength = 8192;
  std::string early;
  for (uint64_t m = 1; m <= 2 * link::kSlots; ++m) early += stripe(m, kLength, 1, 2, text);
  ASSERT_TRUE(feed_second(early).ok());
  feed(header(0, 1, 100) + std::string(100, 'o'));
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), std::string(100, 'o')) << "the other stream has taken all room";
}

TEST(TcpStripes, ThatDoNotFitAreRejected) {
  const std::string text(50000, 'x');
  const uint64_t length = text.size();
  const struct {
    std::string first, second;
    const char* what;
  } cases[] = {{stripe(0, length, 0, 2, text), stripe(0, length - 128, 1, 2, text), "its stripes differ"},
               {stripe(0, length, 0, 2, text), stripe(0, length, 1, 3, text), "its stripes differ"},
               {header(0, 1, 3) + "abc", stripe(0, length, 1, 2, text), "its stripes differ"},
               {stripe(0, length, 0, 2, text).substr(0, 100), stripe(0, length, 0, 2, text), "on this stream"},
               {header(0, 1, 100), stripe(0, 100, 1, 2, text), "too short for stripes"},
               {header(0, 1, 100), stripe(0, length, 1, 2, text) + stripe(0, length, 1, 2, text), "came twice"}};
  for (const auto& [first, second, what] : cases) {
    Stream a, b;
    Receiver fresh(3, 9);
    fresh.attach(std::move(a.theirs));
    fresh.attach(std::move(b.theirs));
    Status status;
    for (const auto& [stream, bytes] : {std::pair{&b, second}, std::pair{&a, first}, std::pair{&b, std::string()}}) {
      if (!bytes.empty()) {
        ASSERT_GT(::send(stream->ours.get(), bytes.data(), bytes.size(), 0), 0);
      }
      for (uint32_t i = 0; i < 2; ++i) fresh.wake(i, false);
      bool moved = false;
      if (status.ok()) status = fresh.progress(moved);
    }
    EXPECT_EQ(status.code, Code::ProtocolError) << what;
    EXPECT_NE(status.text.find(what), std::string::npos) << status.text;
  }
}

TEST(TcpStriped, SenderAndReceiverAgree) {
  constexpr uint32_t kStreams = 3;
  Stream streams[kStreams];
  std::vector<Fd> ours;
  Receiver receiver(0, 0);
  for (Stream& stream : streams) {
    ours.push_back(std::move(stream.ours));
    receiver.attach(std::move(stream.theirs));
  }
  Sender sender(std::move(ours), 1, 0);
  link::OutLink out = sender.link();
  link::InLink in = receiver.link();
  std::string large(1 << 20, ' ');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 1000);
  const size_t sizes[] = {large.size(), 3, 5000, large.size() - 1, large.size() / 2, 0, 300000};
  uint64_t sent = 0, received = 0;
  constexpr uint64_t kMessages = 100;
  for (int turn = 0; turn < 100000 && received < kMessages; ++turn) {
    if (sent < kMessages && link::HostWire::can_publish(out)) {
      const auto* data = reinterpret_cast<const unsigned char*>(large.data());
      const size_t size = sizes[sent++ % std::size(sizes)];
      size <= link::kInlineBytes ? link::HostWire::publish_inline(out, 1, data, size)
                                 : link::HostWire::publish_zcopy(out, 1, data, size);
    }
    bool moved = false;
    for (uint32_t i = 0; i < kStreams; ++i) sender.wake(i);
    ASSERT_TRUE(sender.progress(moved).ok());
    ASSERT_TRUE(receiver.progress(moved, true).ok());
    link::Header got{};
    link::Arrival arrival;
    while (link::HostWire::poll(in, got, arrival) == link::Poll::Ready) {
      ASSERT_EQ(got.length, sizes[received++ % std::size(sizes)]);
      ASSERT_EQ(std::memcmp(arrival.data, large.data(), got.length), 0);
      link::HostWire::consume(in, arrival);
    }
  }
  EXPECT_EQ(received, kMessages);
  EXPECT_FALSE(sender.waiting());
}

}  // namespace
}  // namespace tutti::transports::tcp
