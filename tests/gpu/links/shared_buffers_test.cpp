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
#include "transports/cuda/shared_buffers.hpp"

namespace tutti::cuda {
namespace {

using transports::Wireup;

enum Ask : uint8_t { Offer, Shape, Piece, Done, Withdraw };

struct Message {
  uint8_t ask = Offer;
  uint64_t id = 0, number = 0, piece = 0;
  std::string why_not = "";
  static void fields(auto& m, auto& v) {
    v.number(m.ask, m.id, m.number, m.piece);
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
  Service service;                    ///< of rank 0

  Answer tell(const Message& message) const { return unpack_fields<Answer>(service(1, pack_fields(message)).bytes); }
  /// The first message of this kind that rank 1 hears, or an empty one after so long.
  Message heard(uint8_t ask, double seconds = 10) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return heard_.count(ask) > 0; });
    const auto found = heard_.find(ask);
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
  void serve(const std::string&, Service of) override { service = std::move(of); }
  Reply ask(Rank, const std::string&, const std::string& request, Deadline) override {
    const std::lock_guard lock(mutex_);
    const auto message = unpack_fields<Message>(request);
    heard_.emplace(message.ask, message);
    added_.notify_all();
    return {pack_fields(answers[message.ask]), Fd()};
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
  SharedBuffersTest() : buffers_(wireup_, Device::get(0), 10) {
    const WithContext with(Device::get(0).context());
    check(driver().cuMemAlloc(&memory_, kBytes), "memory for the test");
    buffers_.start({.peers = {{1, nullptr}},
                    .enter = [this](Rank, uint64_t, const link::MappedRegion& region) { entered_ = region.bytes; },
                    .changed = [this] { ++changes_; },
                    .enqueued = [this] { return enqueued_.load(); },
                    .ended = [this] { return ended_.load(); }});
  }
  ~SharedBuffersTest() override {
    const WithContext with(Device::get(0).context());
    driver().cuMemFree(memory_);
  }
  const void* data() const { return reinterpret_cast<const void*>(memory_); }
  bool is_found() const { return buffers_.find(data(), kBytes).id != 0; }
  /// Why rank 0 cannot have what rank 1 offers.
  std::string offered_by_peer() {
    EXPECT_EQ(wireup_.tell({Offer, link::kFirstUserRegion, ++offers_}).refusal, "");
    return wireup_.heard(Done).why_not;
  }

  static constexpr uint64_t kBytes = 1 << 20;
  std::atomic<uint64_t> entered_{0}, changes_{0}, enqueued_{0}, ended_{0};
  uint64_t offers_ = 0;
  CUdeviceptr memory_ = 0;
  HandmadeWireup wireup_;
  SharedBuffers buffers_;
};

TEST_F(SharedBuffersTest, AreUsedWhenThePeerHasThem) {
  const uint64_t number = buffers_.offer(data(), kBytes, false);
  const Message offer = wireup_.heard(Offer);
  EXPECT_EQ(offer.number, number);
  EXPECT_EQ(wireup_.tell({Shape, offer.id, number}).bytes, kBytes);
  EXPECT_EQ(wireup_.tell({Piece, offer.id, number, 0}).piece_bytes, kBytes);
  EXPECT_FALSE(is_found());
  wireup_.tell({Done, offer.id, number + 1});  // of another buffer
  EXPECT_FALSE(buffers_.wait(number, Deadline::in(0.1), [] { return false; }));
  EXPECT_FALSE(is_found());
  wireup_.tell({Done, offer.id, number});  // later than awaited
  EXPECT_TRUE(is_found());
  EXPECT_TRUE(buffers_.wait(number, Deadline::in(10), [] { return false; }));
}

TEST_F(SharedBuffersTest, AreUnmappedWhenTheCallsBeforeHaveEnded) {
  enqueued_ = 5, ended_ = 4;
  const uint64_t number = buffers_.offer(data(), kBytes, false);
  const Message offer = wireup_.heard(Offer);
  wireup_.tell({Done, offer.id, number});
  EXPECT_TRUE(is_found());
  buffers_.withdraw(number);
  EXPECT_FALSE(is_found());
  EXPECT_EQ(wireup_.heard(Withdraw, 0.2).number, 0U);
  const uint64_t next = buffers_.offer(data(), kBytes, false);
  EXPECT_NE(wireup_.heard(Offer).id, offer.id) << "a call of the peer may still read the region of this number";
  ended_ = 5;
  EXPECT_EQ(wireup_.heard(Withdraw).number, number);
  buffers_.withdraw(next);
}

TEST_F(SharedBuffersTest, ARefusalIsThrownOrLogged) {
  const uint64_t number = buffers_.offer(data(), kBytes, false);
  wireup_.tell({Done, wireup_.heard(Offer).id, number, 0, "no memory is left"});
  try {
    buffers_.wait(number, Deadline::in(10), [] { return false; });
    FAIL() << "it was not thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Unsupported);
    EXPECT_STREQ(error.what(), "rank 1: no memory is left");
  }
  EXPECT_EQ(wireup_.heard(Withdraw).number, number);
  const uint64_t late = buffers_.offer(data(), kBytes, false);
  EXPECT_FALSE(buffers_.wait(late, Deadline::in(0), [] { return false; }));
  wireup_.tell({Done, wireup_.heard(Offer).id, late, 0, "no memory is left"});
  EXPECT_FALSE(is_found());
  EXPECT_EQ(wireup_.heard(Withdraw).number, late);
}

TEST_F(SharedBuffersTest, InvalidRequestsAreRefused) {
  EXPECT_NE(unpack_fields<Answer>(wireup_.service(1, "no request").bytes).refusal, "");
  EXPECT_NE(wireup_.tell({9, link::kFirstUserRegion, 1}).refusal, "");
  for (const uint64_t id : {uint64_t{0}, link::kFirstUserRegion - 1, link::kRegions, ~uint64_t{0}}) {
    EXPECT_EQ(wireup_.tell({Offer, id, 1}).refusal, fmt::format("there is no region {}", id));
    EXPECT_NE(wireup_.tell({Done, id, 1}).refusal, "");
  }
  EXPECT_EQ(wireup_.tell({Shape, link::kFirstUserRegion, 1}).refusal, "the buffer is not registered any more");
  const uint64_t number = buffers_.offer(data(), kBytes, false);
  const Message offer = wireup_.heard(Offer);
  EXPECT_EQ(wireup_.tell({Piece, offer.id, number, 1}).refusal, "the buffer has no piece 1");
  EXPECT_NE(wireup_.tell({Piece, offer.id, number - 1, 0}).refusal, "");
  wireup_.tell({Done, offer.id, number - 1});
  EXPECT_FALSE(is_found());
}

TEST_F(SharedBuffersTest, ARankThatLeavesTakesNoMore) {
  buffers_.leave();
  EXPECT_EQ(wireup_.tell({Offer, link::kFirstUserRegion, 1}).refusal, "it leaves the communicator");
  EXPECT_EQ(wireup_.heard(Done, 0.1).number, 0U);
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
