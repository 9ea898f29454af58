// The relays between a device's links and the network's: one message for one, in order, without a copy.
#include "exec/gpu/relay.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "calls/gpu_program.hpp"
#include "exec/cuda/cuda_gpu.hpp"

namespace tutti::exec::gpu {
namespace {

using Wire = link::HostWire;

constexpr uint64_t kSlot = 4096;
constexpr Rank kPeer = 3;

std::unique_ptr<RelayMemory> memory() {
  static const cuda::CudaGpu kGpu(tutti::cuda::Device::get(0));
  return std::make_unique<RelayMemory>(kGpu, kSlot);
}

/// A link between the relay and the test, which is the network's engine.
struct Network {
  link::LinkMemory words{};
  link::Posted posted[link::kPostedAhead];
  link::OutLink writer() { return {.ring = words.ring, .consumed = &words.consumed, .peer = kPeer}; }
  link::InLink reader(bool posts, bool keeps = false) {
    return {.ring = words.ring,
            .consumed = &words.consumed,
            .peer = kPeer,
            .addresses = true,
            .posted = posts ? posted : nullptr,
            .keeps_posted = keeps};
  }
  /// What was posted as number `n`; null: nothing yet.
  unsigned char* given(uint64_t n) const { return reinterpret_cast<unsigned char*>(Wire::posted_for(posted, n).to); }
};

/// The bytes of message `number`.
std::string text(uint64_t number, uint64_t length) { return std::string(length, static_cast<char>('a' + number % 26)); }

struct Message {
  link::Poll poll;
  link::Header header{};
  link::Arrival arrival;
  explicit Message(const link::InLink& in, uint64_t ahead = 0) { poll = Wire::poll(in, header, arrival, ahead); }
  std::string bytes() const { return {reinterpret_cast<const char*>(arrival.data), header.length}; }
};

class Relays : public testing::Test {
 protected:
  Relays() { use_gpu(0); }
};

/// A kernel writes a message, if there is room.
bool push(link::OutLink& out, uint64_t number, uint64_t length) {
  if (!Wire::can_publish(out)) return false;
  const std::string bytes = text(number, length);
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (length <= link::kInlineBytes) {
    Wire::publish_inline(out, number, data, length);
    return true;
  }
  if (!Wire::can_push(out)) return false;
  std::memcpy(link::push_slot(out), data, length);
  Wire::publish_pushed(out, number, length);
  return true;
}

uint64_t length_of(uint64_t number) { return number % 5 < 2 ? number % 41 : kSlot - number % 100; }

TEST_F(Relays, WhatTheDeviceSendsGoesToTheNetworkInOrder) {
  Network network;
  OutRelay relay(memory(), network.writer());
  link::OutLink device = relay.device_end();
  link::InLink peer = network.reader(false);
  uint64_t sent = 0;
  for (uint64_t received = 0; received < 200;) {
    while (push(device, sent, length_of(sent))) ++sent;
    relay.progress();
    EXPECT_TRUE(relay.empty());
    // The network takes some, later ones first; what it has not taken stays.
    for (int i = 0; i < 3 && received < 200; ++i, ++received) {
      const Message got(peer);
      ASSERT_EQ(got.poll, link::Poll::Ready) << received;
      EXPECT_EQ(got.header.tag, received);
      EXPECT_EQ(got.bytes(), text(received, length_of(received)));
      if (got.header.length > link::kInlineBytes) {
        const unsigned char* const slots = device.arena;
        EXPECT_TRUE(got.arrival.data >= slots && got.arrival.data < slots + link::kPushSlots * kSlot) << "a copy";
      }
      Wire::consume(peer, got.arrival);
    }
    relay.progress();
  }
}

TEST_F(Relays, WhatTheNetworkBringsIsReceivedInTheDevicesSlots) {
  Network network;
  InRelay relay(memory(), network.reader(true), nullptr);
  link::InLink device = relay.device_end();
  link::OutLink peer = network.writer();
  relay.progress();
  uint64_t sent = 0;
  std::string elsewhere[link::kCapacity];
  for (uint64_t received = 0; received < 200; ++received) {
    while (Wire::can_publish(peer) && sent < received + 8) {
      const std::string bytes = text(sent, length_of(sent));
      unsigned char* at = Wire::posted(network.posted, sent, sent, bytes.size());
      if (bytes.size() <= link::kInlineBytes) {
        Wire::publish_inline(peer, sent, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      } else if (at != nullptr && sent % 7 != 6) {  // an engine may take a buffer of its own
        std::copy(bytes.begin(), bytes.end(), at);
        Wire::publish_staged(peer, sent, at, bytes.size());
      } else {
        EXPECT_TRUE(at != nullptr || sent > 8) << "no slot is posted for message " << sent;
        std::string& own = elsewhere[sent % link::kCapacity] = bytes;
        Wire::publish_staged(peer, sent, reinterpret_cast<const unsigned char*>(own.data()), own.size());
      }
      ++sent;
    }
    relay.progress();
    const Message got(device);
    ASSERT_EQ(got.poll, link::Poll::Ready) << received;
    EXPECT_EQ(got.header.tag, received);
    EXPECT_EQ(got.bytes(), text(received, length_of(received)));
    Wire::consume(device, got.arrival);
    relay.progress();
  }
}

/// An engine that keeps what is posted puts any message there; nobody else writes to a slot before it is consumed.
TEST_F(Relays, SlotsThatStayPostedArePostedAgainWhenTheirMessageIsConsumed) {
  Network network;
  auto own = memory();
  unsigned char* const slots = own->slot(0);
  InRelay relay(std::move(own), network.reader(true, true), memory());
  link::InLink device = relay.device_end();
  link::OutLink peer = network.writer();
  relay.progress();
  std::set<unsigned char*> posted;
  for (uint64_t n = 0; n < link::kPushSlots; ++n) posted.insert(network.given(n));
  ASSERT_EQ(posted.size(), link::kPushSlots);
  std::memset(slots, '.', link::kPushSlots * kSlot);

  const std::string elsewhere(3000, 'e'), before(kSlot, '.');
  Wire::publish_staged(peer, 0, reinterpret_cast<const unsigned char*>(elsewhere.data()), elsewhere.size());
  unsigned char* const taken = network.given(5);
  std::memset(taken, 't', 2000);
  Wire::publish_staged(peer, 1, taken, 2000);
  relay.progress();
  EXPECT_EQ(network.given(link::kPushSlots), nullptr) << "a slot was posted again that holds a message";

  const Message copied(device), direct(device, 1);
  ASSERT_EQ(direct.poll, link::Poll::Ready);
  EXPECT_EQ(copied.bytes(), elsewhere);
  EXPECT_EQ(direct.arrival.data, taken);
  posted.erase(taken);
  for (unsigned char* const slot : posted) {
    EXPECT_EQ(std::memcmp(slot, before.data(), kSlot), 0) << "a copy is in a slot that is posted";
  }
  Wire::consume(device, copied.arrival);
  relay.progress();
  EXPECT_EQ(network.given(link::kPushSlots), nullptr);
  Wire::consume(device, direct.arrival);
  relay.progress();
  EXPECT_EQ(network.given(link::kPushSlots), taken);
}

/// Short messages are acknowledged in bunches; a slot must not seem in use until then.
TEST_F(Relays, ALongMessageAfterShortOnesFindsASlot) {
  Network network;
  InRelay relay(memory(), network.reader(true), nullptr);
  link::InLink device = relay.device_end();
  link::OutLink peer = network.writer();
  for (uint64_t number = 0; number < 12; ++number) {
    Wire::publish_inline(peer, number, reinterpret_cast<const unsigned char*>("short"), 5);
    relay.progress();
    Wire::consume(device, Message(device).arrival);
  }
  std::string bytes(1000, 'x');
  Wire::publish_staged(peer, 12, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  relay.progress();
  ASSERT_EQ(Message(device).poll, link::Poll::Ready);
  EXPECT_EQ(Message(device).bytes(), bytes);
}

/// The peer's bytes are not trusted: the device sees the length, and nothing is written.
TEST_F(Relays, AMessageThatIsTooLongIsNotCopied) {
  Network network;
  auto own = memory();
  const unsigned char* const second = own->slot(1);
  InRelay relay(std::move(own), network.reader(false), nullptr);
  const link::InLink device = relay.device_end();
  link::OutLink peer = network.writer();
  const std::string before(reinterpret_cast<const char*>(second), kSlot);
  const std::string bytes(2 * kSlot, 'x');
  Wire::publish_staged(peer, 0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  relay.progress();
  EXPECT_EQ(Message(device).header.length, bytes.size());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second), kSlot), before);
}

}  // namespace
}  // namespace tutti::exec::gpu
