// The two ends of a tcp link, each with a stream whose other end is the test.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "transports/tcp/sender.hpp"
#include "unit/transports/tcp/ends.hpp"

namespace tutti::transports::tcp {
namespace {

TEST_F(TcpReceiver, PutsTogetherWhatArrivesByteByByte) {
  const std::string small(link::kInlineBytes, 's'), large(70000, 'l');
  const std::string all =
      header(0, 1, small.size()) + small + header(1, 2, 0) + header(2, link::kTagMask, 100) + std::string(100, 'm');
  for (const char byte : all) {
    feed({byte});
    ASSERT_TRUE(progress().ok());
  }
  feed(header(3, 4, large.size()) + large);
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), small);
  EXPECT_EQ(take(), "");
  EXPECT_EQ(take(), std::string(100, 'm'));
  EXPECT_EQ(take(), large);
  EXPECT_EQ(take(), "(none)");
}

TEST_F(TcpReceiver, StopsReadingWhenItsRingIsFull) {
  for (uint64_t m = 0; m < 3 * link::kSlots; ++m) feed(header(m, m, 50) + std::string(50, static_cast<char>('a' + m)));
  for (uint64_t m = 0; m < 3 * link::kSlots; ++m) {
    ASSERT_TRUE(progress().ok());
    EXPECT_FALSE(receiver.busy()) << "there is no room";
    EXPECT_EQ(take(), std::string(50, static_cast<char>('a' + m)));
    EXPECT_EQ(receiver.busy(), m < 2 * link::kSlots) << m;
  }
  EXPECT_EQ(take(), "(none)");
}

TEST_F(TcpReceiver, ReusesItsMemory) {
  std::set<const unsigned char*> places;
  for (uint64_t m = 0; m < 100; ++m) {
    feed(header(m, m, 5000) + std::string(5000, 'x'));
    ASSERT_TRUE(progress().ok());
    ASSERT_EQ(take().size(), 5000u);
    places.insert(last);
  }
  EXPECT_EQ(places.size(), 1u) << "a reader that keeps up needs one buffer";
}

TEST_F(TcpReceiver, RejectsInvalidHeadersAndNamesTheSender) {
  const std::string cases[] = {std::string(kHeaderBytes, '\0'),
                               "GET / HTTP/1.1\r\nHost: example.com\r\n",
                               header(1, 0, 8),
                               header(0, link::kTagMask + 1, 8),
                               header(0, 0, kMaxMessage + 1),
                               header(0, 0, ~uint64_t{0})};
  for (const std::string& bytes : cases) {
    Stream other;
    Receiver fresh(3, 9);
    fresh.attach(std::move(other.theirs));
    ASSERT_GT(::send(other.ours.get(), bytes.data(), bytes.size(), 0), 0);
    bool moved = false;
    const Status status = fresh.progress(moved);
    EXPECT_EQ(status.code, Code::ProtocolError) << bytes;
    EXPECT_NE(status.text.find("message 0 from rank 3 (link lane 9) is invalid"), std::string::npos) << status.text;
  }
}

TEST_F(TcpReceiver, AcceptsTheEndOfAStreamBetweenMessages) {
  feed(header(0, 0, 3) + "abc");
  hang_up();
  EXPECT_TRUE(progress().ok());
  EXPECT_TRUE(progress().ok());
  EXPECT_EQ(take(), "abc");
  EXPECT_FALSE(receiver.busy());
}

TEST_F(TcpReceiver, SaysWhoseStreamEndedInTheMiddleOfAMessage) {
  for (const size_t cut : {size_t{1}, size_t{kHeaderBytes - 1}, size_t{kHeaderBytes}, size_t{kHeaderBytes + 99}}) {
    Stream other;
    Receiver fresh(3, 9);
    fresh.attach(std::move(other.theirs));
    const std::string message = header(0, 0, 100) + std::string(100, 'x');
    ASSERT_EQ(::send(other.ours.get(), message.data(), cut, 0), static_cast<ssize_t>(cut));
    other.ours.reset();
    fresh.wake(0, true);
    bool moved = false;
    const Status status = fresh.progress(moved);
    EXPECT_EQ(status.code, Code::PeerFailed) << cut;
    EXPECT_NE(status.text.find("from rank 3 (link lane 9) broke in message 0"), std::string::npos) << status.text;
  }
}

// ---- posted destinations

TEST_F(TcpReceiver, ReceivesAMessageWhereItIsAwaited) {
  const std::string large(70000, 'l');
  std::string place(large.size(), '-');
  feed(header(0, 1, 3) + "abc" + header(1, 7, large.size()) + large.substr(0, 100));
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), "abc");
  // It has begun to come: this is too late, and the message goes to memory of the receiver.
  link::HostWire::post(in, 7, large.size(), reinterpret_cast<unsigned char*>(place.data()));
  feed(large.substr(100));
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), large);
  EXPECT_EQ(place, std::string(large.size(), '-'));
  link::HostWire::post(in, 8, large.size(), reinterpret_cast<unsigned char*>(place.data()));
  feed(header(2, 8, large.size()) + large);
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), large);
  EXPECT_EQ(static_cast<const void*>(last), place.data());
}

TEST_F(TcpReceiver, ReceivesAnyMessagesWhereTheyAreAwaited) {
  std::string places[link::kPostedAhead];
  for (uint64_t message = 0; message < link::kPostedAhead; ++message) {
    places[message].assign(5000, '-');
    link::HostWire::post(in, message, link::kAnyTag, 5000, reinterpret_cast<unsigned char*>(places[message].data()));
  }
  const std::string full(5000, 'f'), shorter(300, 's'), longer(5001, 'l');
  feed(header(0, 7, 5000) + full + header(1, 8, 300) + shorter + header(2, 9, 5001) + longer + header(3, 7, 2) + "ab" +
       header(4, 7, 5000) + full);
  ASSERT_TRUE(progress().ok());
  EXPECT_EQ(take(), full);
  EXPECT_EQ(static_cast<const void*>(last), places[0].data());
  EXPECT_EQ(take(), shorter);
  EXPECT_EQ(static_cast<const void*>(last), places[1].data());
  EXPECT_EQ(take(), longer);
  EXPECT_EQ(places[2], std::string(5000, '-')) << "it does not fit";
  EXPECT_EQ(take(), "ab");
  EXPECT_EQ(take(), full);
  EXPECT_EQ(static_cast<const void*>(last), places[4].data());
}

TEST_F(TcpReceiver, WritesNoOtherMessageToAPostedDestination) {
  const std::string text(5000, 'x');
  for (const auto& [number, tag, length] :
       {std::tuple<uint64_t, uint64_t, uint64_t>{0, 9, 5000}, {0, 8, 4999}, {0, 8, 5001}}) {
    Stream other;
    Receiver fresh(3, 9);
    fresh.attach(std::move(other.theirs));
    std::string place(5000, '-');
    link::InLink link = fresh.link();
    link::HostWire::post(link, 8, place.size(), reinterpret_cast<unsigned char*>(place.data()));
    const std::string bytes = header(number, tag, length) + std::string(length, 'x');
    ASSERT_EQ(::send(other.ours.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    bool moved = false;
    ASSERT_TRUE(fresh.progress(moved).ok());
    EXPECT_EQ(place, std::string(5000, '-')) << "tag " << tag << ", " << length << " bytes";
  }
}

/// A sender whose stream the test reads.
struct TcpSender : testing::Test {
  Stream stream;
  Sender sender{list_of(std::move(stream.theirs)), 5, 2};
  link::OutLink out = sender.link();

  Status progress() {
    bool moved = false;
    return sender.progress(moved);
  }
  std::string receive(size_t bytes) {
    std::string got(bytes, '\0');
    const ssize_t count = ::recv(stream.ours.get(), got.data(), got.size(), MSG_DONTWAIT);
    got.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return got;
  }
};

TEST_F(TcpSender, SendsHeadersAndPayloadsAndConsumesThem) {
  const std::string large(3000, 'L');
  link::HostWire::publish_inline(out, 7, reinterpret_cast<const unsigned char*>("abc"), 3);
  link::HostWire::publish_zcopy(out, 8, reinterpret_cast<const unsigned char*>(large.data()), large.size());
  EXPECT_TRUE(sender.waiting());
  ASSERT_TRUE(progress().ok());
  EXPECT_FALSE(sender.waiting());
  EXPECT_EQ(receive(10000), header(0, 7, 3) + "abc" + header(1, 8, 3000) + large);
  link::HostWire::refresh(out);
  EXPECT_EQ(out.acked, 2u);
}

TEST_F(TcpSender, ContinuesAfterAFullStream) {
  std::string large(3 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 1000);
  link::HostWire::publish_zcopy(out, 8, reinterpret_cast<const unsigned char*>(large.data()), large.size());
  link::HostWire::publish_inline(out, 9, reinterpret_cast<const unsigned char*>("end"), 3);
  std::string got;
  for (int turn = 0; turn < 10000 && sender.waiting(); ++turn) {
    ASSERT_TRUE(progress().ok());
    link::HostWire::refresh(out);
    if (turn == 0) {
      EXPECT_EQ(out.acked, 0u) << "its last byte is not sent";
      EXPECT_FALSE(sender.busy()) << "nothing can be sent before the kernel says so";
    }
    got += receive(100000);
    sender.wake(0);
  }
  while (got.size() < large.size() + 2 * kHeaderBytes + 3) {
    const std::string more = receive(100000);
    ASSERT_FALSE(more.empty());
    got += more;
  }
  EXPECT_TRUE(got == header(0, 8, large.size()) + large + header(1, 9, 3) + "end");
}

TEST_F(TcpSender, NamesAReaderThatHasGone) {
  stream.ours.reset();
  link::HostWire::publish_inline(out, 7, nullptr, 0);
  const Status status = progress();
  EXPECT_EQ(status.code, Code::PeerFailed);
  EXPECT_NE(status.text.find("to rank 5 (link lane 2) broke at message 0"), std::string::npos) << status.text;
}

TEST_F(TcpSender, RefusesAMessageThatIsTooLong) {
  static const unsigned char kByte = 0;
  link::HostWire::publish_staged(out, 7, &kByte, kMaxMessage + 1);
  EXPECT_EQ(progress().code, Code::InternalError);
}

TEST_F(TcpSender, ConsumesAllMessagesWhenItIsStopped) {
  const std::string large(3 << 20, 'x');
  for (int i = 0; i < 3; ++i) {
    link::HostWire::publish_zcopy(out, 8, reinterpret_cast<const unsigned char*>(large.data()), large.size());
  }
  ASSERT_TRUE(progress().ok());
  EXPECT_TRUE(sender.waiting());
  sender.stop();
  link::HostWire::refresh(out);
  EXPECT_EQ(out.acked, out.next);
  EXPECT_FALSE(sender.waiting());
  EXPECT_TRUE(progress().ok());
}

}  // namespace
}  // namespace tutti::transports::tcp
