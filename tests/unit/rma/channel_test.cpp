// What a rank asks of another host: how long it waits for an answer.
#include "rma/channel.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "rma/part.hpp"
#include "rma/target.hpp"
#include "support/fake_wireup.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {
namespace {

constexpr size_t kPieces = 6, kPiece = 1000;

std::string_view text_of(const Reply& reply) { return {reinterpret_cast<const char*>(&reply), sizeof reply}; }

/// Rank 1, whose answers take as long as a test wants.
class Peer {
 public:
  explicit Peer(const std::string& job) : wireup_(job, 1, 2) {
    wireup_.receive_streams(kStreamLabel, [this](Rank, Fd stream) { stream_.set_value(std::move(stream)); });
  }
  /// Answers one get, piece by piece.
  void answer_slowly(std::chrono::milliseconds pause) {
    const WaitLimit limit{Deadline::in(20), nullptr};
    const Fd stream = stream_.get_future().get();
    Request request;
    recv_all(stream.get(), &request, sizeof request, limit);
    EXPECT_EQ(request.bytes, kPieces * kPiece);
    send_all(stream.get(), text_of(Reply{}), limit);
    for (size_t i = 0; i < kPieces; ++i) {
      std::this_thread::sleep_for(pause);
      send_all(stream.get(), std::string(kPiece, static_cast<char>('a' + i)), limit);
    }
    send_all(stream.get(), text_of(Reply{}), limit);
  }

 private:
  test::FakeWireup wireup_;
  std::promise<Fd> stream_;
};

class ChannelWaits : public testing::Test {
 protected:
  uint64_t get(double limit) {
    Channel channel(wireup_, 1, ends_, Deadline::in(20));
    return channel.ask({.what = Request::What::Get, .window = 7, .bytes = got_.size()}, got_, limit);
  }

  const std::string job_ = fmt::format("channel-{}", getpid());
  test::FakeWireup wireup_{job_, 0, 2};
  Peer peer_{job_};
  const std::atomic<uint32_t> stop_{0};
  const Ends ends_{.stop = stop_, .has_left = [](Rank) { return false; }};
  std::vector<std::byte> got_ = std::vector<std::byte>(kPieces * kPiece);
};

TEST_F(ChannelWaits, AsLongAsBytesCome) {
  using namespace std::chrono_literals;
  std::jthread peer([&] { peer_.answer_slowly(250ms); });
  EXPECT_NO_THROW(get(1)) << "it takes one and a half seconds, but never one without progress";
  EXPECT_EQ(got_.back(), static_cast<std::byte>('a' + kPieces - 1));
}

TEST_F(ChannelWaits, NoLongerForAPeerThatIsSilent) {
  try {
    get(0.2);
    FAIL() << "nobody answers";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout);
    EXPECT_EQ(std::string(error.what()), "requests to rank 1: the other end did not go on for 0.2 s");
  }
}

}  // namespace
}  // namespace tutti::rma
