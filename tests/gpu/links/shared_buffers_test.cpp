// Buffers that peers read where they lie, with a peer that is made by hand: what it is told, and when; and what happens
// when it says what no peer says.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/fields.hpp"
#include "transports/cuda/memory.hpp"
#include "transports/cuda/shared_buffers.hpp"

namespace tutti::cuda {
namespace {

using transports::Wireup;

enum Kind : uint8_t { Offer, Shape, Piece, Answered, Withdraw };

struct Message {
  uint8_t kind = Offer;
  uint64_t id = 0, number = 0, piece = 0;
  std::string why_not = "";
  static void fields(auto& m, auto& v) {
    v.number(m.kind, m.id, m.number, m.piece);
    v.words(m.why_not, 1024);
  }
};

struct Answer {
  std::string refusal = "";
  uint64_t address = 0, bytes = 0, pieces = 0;
  bool has_handles = false;
  uint64_t piece_bytes = 0;
  std::string handle = "";
  static void fields(auto& m, auto& v) {
    v.words(m.refusal, 1024);
    v.number(m.address, m.bytes, m.pieces);
    v.flag(m.has_handles);
    v.number(m.piece_bytes);
    v.text(m.handle, 64);
  }
};

/// Rank 0's, of two ranks; rank 1 answers as the test says.
class HandmadeWireup final : public Wireup {
 public:
  std::map<uint8_t, Answer> answers;  ///< of rank 1, by what it is asked
  std::function<Fd()> piece;          ///< its descriptor
  Service service;                    ///< of rank 0

  Answer tell(const Message& message) const { return unpack_fields<Answer>(service(1, pack_fields(message)).bytes); }
  /// The first message of this kind that rank 1 hears, or an empty one after so long.
  Message heard(uint8_t kind, double seconds = 10) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return heard_.count(kind) > 0; });
    const auto found = heard_.find(kind);
    if (found == heard_.end()) return {};
    const Message message = found->second;
    heard_.erase(found);
    return message;
  }

  Rank rank() const override { return 0; }
  Rank ranks() const override { return 2; }
  const transports::ProcessId& process_id(Rank) const override { return id_; }
  void confirm_process(Rank, Deadline) override {}
  const std::string& name() const override { return name_; }
  Fd open_stream(Rank, const std::string&, Deadline) override { return {}; }
  std::optional<Fd> take_stream(Rank, const std::string&) override { return std::nullopt; }
  void receive_streams(const std::string&, std::function<void(Rank, Fd)>) override {}
  void serve(const std::string&, Service of) override { service = std::move(of); }
  Reply ask(Rank, const std::string&, const std::string& request, Deadline) override {
    const std::lock_guard lock(mutex_);
    const auto message = unpack_fields<Message>(request);
    heard_.emplace(message.kind, message);
    added_.notify_all();
    return {pack_fields(answers[message.kind]), message.kind == Piece && piece ? piece() : Fd()};
  }

 private:
  const transports::ProcessId id_{"host", 1, 1, 1};
  const std::string name_ = "handmade";
  std::mutex mutex_;
  std::condition_variable added_;
  std::multimap<uint8_t, Message> heard_;
};

class SharedBuffersTest : public testing::Test {
 protected:
  SharedBuffersTest() : buffers_(wireup_, Device::get(0)) {
    const WithContext with(Device::get(0).context());
    check(driver().cuMemAlloc(&memory_, kBytes), "memory for the test");
    buffers_.start({.peers = {{1, nullptr}},
                    .set_region = [this](Rank, uint64_t, const link::MappedRegion& region) { entered_ = region.bytes; },
                    .changed = [this] { ++changes_; },
                    .enqueued = [this] { return enqueued_.load(); },
                    .ended = [this] { return ended_.load(); }});
  }
  ~SharedBuffersTest() override {
    const WithContext with(Device::get(0).context());
    driver().cuMemFree(memory_);
  }
  const void* data() const { return reinterpret_cast<const void*>(memory_); }
  uint64_t offer(SharedBuffers::For whom = SharedBuffers::For::User) {
    return buffers_.offer(data(), kBytes, whom, Deadline::in(10));
  }
  /// Offered, and the peer has it.
  Message taken(SharedBuffers::For whom = SharedBuffers::For::User) {
    offer(whom);
    const Message message = wireup_.heard(Offer);
    wireup_.tell({Answered, message.id, message.number});
    EXPECT_TRUE(is_found());
    return message;
  }
  bool is_found() const { return buffers_.find(data(), kBytes).id != 0; }
  /// Why rank 0 cannot have what rank 1 offers.
  std::string offered_by_peer() {
    EXPECT_EQ(wireup_.tell({Offer, link::kFirstUserRegion, ++offers_}).refusal, "");
    return wireup_.heard(Answered).why_not;
  }

  static constexpr uint64_t kBytes = 1 << 20;
  std::atomic<uint64_t> entered_{0}, changes_{0}, enqueued_{0}, ended_{0};
  uint64_t offers_ = 0;
  CUdeviceptr memory_ = 0;
  HandmadeWireup wireup_;
  SharedBuffers buffers_;
};

TEST_F(SharedBuffersTest, AreUsedWhenThePeerHasThem) {
  const uint64_t number = offer();
  const Message offer = wireup_.heard(Offer);
  EXPECT_EQ(offer.number, number);
  EXPECT_EQ(wireup_.tell({Shape, offer.id, number}).bytes, kBytes);
  EXPECT_EQ(wireup_.tell({Piece, offer.id, number, 0}).piece_bytes, kBytes);
  EXPECT_FALSE(is_found());
  wireup_.tell({Answered, offer.id, number + 1});  // of another buffer
  EXPECT_FALSE(buffers_.wait(number, Deadline::in(0.1), [] { return false; }));
  EXPECT_FALSE(is_found());
  wireup_.tell({Answered, offer.id, number});  // later than awaited
  EXPECT_TRUE(is_found());
  EXPECT_TRUE(buffers_.wait(number, Deadline::in(10), [] { return false; }));
}

TEST_F(SharedBuffersTest, AreUnmappedWhenTheCallsBeforeHaveEnded) {
  enqueued_ = 5, ended_ = 4;
  const Message before = taken();
  buffers_.withdraw(before.number);
  EXPECT_FALSE(is_found());
  EXPECT_EQ(wireup_.heard(Withdraw, 0.2).number, 0U);
  const uint64_t next = offer();
  EXPECT_NE(wireup_.heard(Offer).id, before.id) << "a call of the peer may still read the region of this number";
  ended_ = 5;
  EXPECT_EQ(wireup_.heard(Withdraw).number, before.number);
  buffers_.withdraw(next);
}

TEST_F(SharedBuffersTest, AreUnmappedWhenNoGraphHoldsThem) {
  const Message message = taken();
  std::shared_ptr<void> graph = buffers_.hold({message.id, nullptr, nullptr, nullptr});
  buffers_.withdraw(message.number);
  EXPECT_FALSE(is_found());
  EXPECT_EQ(wireup_.heard(Withdraw, 0.2).number, 0U);
  graph.reset();
  EXPECT_EQ(wireup_.heard(Withdraw).number, message.number);
}

/// Whether a graph has held it or, since the capture failed, none.
TEST_F(SharedBuffersTest, OfGraphsEndWithThem) {
  Message message = taken(SharedBuffers::For::Graphs);
  EXPECT_EQ(wireup_.heard(Withdraw).number, message.number);
  message = taken(SharedBuffers::For::Graphs);
  std::shared_ptr<void> graph = buffers_.hold({message.id, nullptr, nullptr, nullptr});
  EXPECT_EQ(wireup_.heard(Withdraw, 7).number, 0U);
  EXPECT_TRUE(is_found());
  graph.reset();
  EXPECT_EQ(wireup_.heard(Withdraw).number, message.number);
}

TEST_F(SharedBuffersTest, WhatIsRegisteredTwiceIsOneBuffer) {
  const Message message = taken();
  EXPECT_EQ(offer(), message.number);
  EXPECT_EQ(offer(SharedBuffers::For::Graphs), message.number);
  EXPECT_EQ(wireup_.heard(Offer, 0.1).number, 0U);
  buffers_.withdraw(message.number);
  EXPECT_TRUE(is_found());
  buffers_.withdraw(message.number);
  EXPECT_TRUE(is_found()) << "it was offered to graphs, too";
  EXPECT_EQ(wireup_.heard(Withdraw).number, message.number);
  EXPECT_FALSE(is_found());
}

/// Its driver may be of another opinion than its owner.
TEST_F(SharedBuffersTest, APeersBufferIsKeptUntilTheCallsOfThisRankHaveEnded) {
  const auto theirs = PeerMemory::create_shareable(Device::get(0), kBytes);
  const uint64_t bytes = theirs->bytes();
  wireup_.answers[Shape] = {.address = 1, .bytes = bytes, .pieces = 1};
  wireup_.answers[Piece] = {.piece_bytes = bytes};
  wireup_.piece = [&] { return theirs->share_fd(); };
  EXPECT_EQ(offered_by_peer(), "");
  EXPECT_EQ(entered_, bytes);
  enqueued_ = 1;
  EXPECT_EQ(wireup_.tell({Withdraw, link::kFirstUserRegion, offers_ + 1}).refusal, "");  // of no buffer of its
  EXPECT_EQ(entered_, bytes);
  EXPECT_EQ(wireup_.tell({Withdraw, link::kFirstUserRegion, offers_}).refusal, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // in which it would be unmapped, if calls did not count
  EXPECT_EQ(entered_, bytes) << "a call of this rank may still read it";
  EXPECT_EQ(wireup_.tell({Offer, link::kFirstUserRegion, ++offers_}).refusal, "");  // another buffer of that id
  EXPECT_EQ(wireup_.heard(Answered, 0.2).number, 0U);
  ended_ = 1;
  EXPECT_EQ(wireup_.heard(Answered).number, offers_);
  EXPECT_EQ(entered_, bytes);
  EXPECT_EQ(wireup_.tell({Withdraw, link::kFirstUserRegion, offers_}).refusal, "");
  for (int i = 0; i < 1000 && entered_ != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(entered_, 0U);
}

TEST_F(SharedBuffersTest, ARefusalIsThrownOrLogged) {
  const uint64_t number = offer();
  wireup_.tell({Answered, wireup_.heard(Offer).id, number, 0, "no memory is left"});
  try {
    buffers_.wait(number, Deadline::in(10), [] { return false; });
    FAIL() << "it was not thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Unsupported);
    EXPECT_STREQ(error.what(), "rank 1: no memory is left");
  }
  EXPECT_EQ(wireup_.heard(Withdraw).number, number);
  const uint64_t late = offer();
  EXPECT_FALSE(buffers_.wait(late, Deadline::in(0), [] { return false; }));
  wireup_.tell({Answered, wireup_.heard(Offer).id, late, 0, "no memory is left"});
  EXPECT_FALSE(is_found());
  EXPECT_EQ(wireup_.heard(Withdraw).number, late);
}

TEST_F(SharedBuffersTest, InvalidRequestsAreRefused) {
  EXPECT_NE(unpack_fields<Answer>(wireup_.service(1, "no request").bytes).refusal, "");
  EXPECT_NE(wireup_.tell({9, link::kFirstUserRegion, 1}).refusal, "");
  for (const uint64_t id : {uint64_t{0}, link::kFirstUserRegion - 1, link::kRegions, ~uint64_t{0}}) {
    EXPECT_EQ(wireup_.tell({Offer, id, 1}).refusal, fmt::format("there is no region {}", id));
    EXPECT_NE(wireup_.tell({Answered, id, 1}).refusal, "");
  }
  EXPECT_EQ(wireup_.tell({Shape, link::kFirstUserRegion, 1}).refusal, "the buffer is not registered any more");
  const uint64_t number = offer();
  const Message offer = wireup_.heard(Offer);
  EXPECT_EQ(wireup_.tell({Piece, offer.id, number, 1}).refusal, "the buffer has no piece 1");
  EXPECT_NE(wireup_.tell({Piece, offer.id, number - 1, 0}).refusal, "");
  wireup_.tell({Answered, offer.id, number - 1});
  EXPECT_FALSE(is_found());
}

TEST_F(SharedBuffersTest, ARankThatLeavesTakesNoMore) {
  buffers_.leave();
  EXPECT_EQ(wireup_.tell({Offer, link::kFirstUserRegion, 1}).refusal, "it leaves the communicator");
  EXPECT_EQ(wireup_.heard(Answered, 0.1).number, 0U);
  EXPECT_EQ(wireup_.tell({Withdraw, link::kFirstUserRegion, 1}).refusal, "") << "what lets go is taken";
  buffers_.end();
  EXPECT_EQ(wireup_.tell({Offer, link::kFirstUserRegion, 1}).refusal, "it has left the communicator");
}

TEST_F(SharedBuffersTest, WhatAPeerStatesIsChecked) {
  wireup_.answers[Shape] = {.refusal = "gone"};
  EXPECT_EQ(offered_by_peer(), "rank 1: gone");
  wireup_.answers[Shape] = {.bytes = kBytes, .pieces = 0};
  EXPECT_EQ(offered_by_peer(), "rank 1 states a buffer of 0 pieces");
  wireup_.answers[Shape] = {.bytes = kBytes, .pieces = uint64_t{1} << 40};
  EXPECT_EQ(offered_by_peer(), "rank 1 states a buffer of 1099511627776 pieces");
  wireup_.answers[Shape] = {.bytes = kBytes, .pieces = 1, .has_handles = true};
  wireup_.answers[Piece] = {.piece_bytes = kBytes, .handle = "short"};
  EXPECT_EQ(offered_by_peer(), "rank 1 states a handle of 5 bytes");
  wireup_.answers[Piece] = {.piece_bytes = kBytes, .handle = std::string(64, 'x')};
  EXPECT_NE(offered_by_peer(), "");
  wireup_.answers[Shape] = {.bytes = uint64_t{1} << 62, .pieces = 2};
  EXPECT_NE(offered_by_peer(), "");
  wireup_.answers[Shape] = {.bytes = 2 << 20, .pieces = 2};
  wireup_.answers[Piece] = {.piece_bytes = 4 << 20};
  EXPECT_EQ(offered_by_peer(), "rank 1 states 2097152 bytes, and a piece of 4194304 at byte 0");
  wireup_.answers[Piece] = {.piece_bytes = 2 << 20};  // without a descriptor
  EXPECT_NE(offered_by_peer(), "");
  EXPECT_EQ(entered_, 0U);
}

}  // namespace
}  // namespace tutti::cuda
