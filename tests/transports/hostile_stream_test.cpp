// A peer that is authenticated and hostile, at the data stream of tcp: a socket, not a parser alone.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transports/ends.hpp"
#include "transports/fixtures.hpp"
#include "transports/tcp/frame.hpp"

namespace tutti::test {
namespace {

namespace tcp = transports::tcp;

std::string header_of(const tcp::FrameHeader& header) {
  unsigned char bytes[tcp::kHeaderBytes];
  tcp::write_header(bytes, header);
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

/// A rank that reads, and the stream of its hostile peer.
struct Victim {
  void send(const std::string& bytes) {
    ASSERT_EQ(::send(stream.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  Status failure() {
    const Deadline limit = Deadline::in(kWaitLimit);
    while (!limit.passed()) {
      bool moved = false;
      if (Status status = self.transport->progress(moved); !status.ok()) return status;
      while (reader.ready()) reader.drop();
    }
    return {};
  }
  RankGroup group{2, false};
  TestRank peer{group, 0, TcpThreads::make}, self{group, 1, TcpThreads::make};
  Reader reader{self, 0, 0};
  Fd stream = peer.wireup.open_stream(1, "tcp:0", Deadline::in(kWaitLimit));
};

const std::string& good() {
  static const std::string kGood = header_of({.number = 0, .tag = 1, .length = 8}) + "12345678";
  return kGood;
}

TEST(TcpHostileStream, GarbageOversizedAndReplayedHeadersAreErrorsThatNameThePeer) {
  const std::pair<std::string, const char*> all[] = {
      {std::string(tcp::kHeaderBytes, 'x'), "does not begin like a header"},
      {header_of({.number = 1, .tag = 1, .length = 8}), "not the next message"},
      {good() + good(), "not the next message"},
      {header_of({.number = 0, .tag = 1, .length = tcp::kMaxMessage + 1}), "longer than any message"},
      {header_of({.number = 0, .tag = link::kTagMask + 1, .length = 8}), "more than 48 bits"},
      {header_of({.number = 0, .tag = 1, .length = 1 << 20, .part = 1, .parts = 2}), "does not belong on this stream"},
      {header_of({.number = 0, .tag = 1, .length = 1 << 20, .part = 0, .parts = 200}),
       "does not belong on this stream"},
  };
  for (const auto& [bytes, says] : all) {
    Victim victim;
    victim.send(bytes);
    const Status status = victim.failure();
    EXPECT_EQ(status.code, Code::ProtocolError) << status.text;
    EXPECT_NE(status.text.find(says), std::string::npos) << status.text;
    EXPECT_NE(status.text.find("from rank 0"), std::string::npos) << status.text;
  }
}

TEST(TcpHostileStream, AMessageThatIsCutShortIsAnError) {
  const std::string announced = header_of({.number = 0, .tag = 1, .length = tcp::kMaxMessage});
  for (const std::string& bytes : {good().substr(0, 5), good().substr(0, good().size() - 1), announced + "a few"}) {
    Victim victim;
    victim.send(bytes);
    victim.stream.reset();
    const Status status = victim.failure();
    EXPECT_EQ(status.code, Code::PeerFailed) << status.text;
    EXPECT_NE(status.text.find("from rank 0"), std::string::npos) << status.text;
  }
}

TEST(TcpHostileStream, AMessageThatDripsArrivesWhole) {
  Victim victim;
  for (const char byte : good()) {
    EXPECT_FALSE(victim.reader.ready());
    victim.send(std::string(1, byte));
    for (int i = 0; i < 10; ++i) victim.self.turn();
  }
  victim.self.until([&] { return victim.reader.ready(); }, "the message");
  victim.reader.take(1, Payload{'1', '2', '3', '4', '5', '6', '7', '8'});
}

}  // namespace
}  // namespace tutti::test
