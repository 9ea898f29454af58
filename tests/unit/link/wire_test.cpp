// One thread plays both ends of a link, then a hostile writer and a hostile reader.
#include "link/wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "link/host_memory.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::link {
namespace {

struct Wire : testing::Test {
  std::unique_ptr<LinkMemory> memory = std::make_unique<LinkMemory>();
  std::array<unsigned char, 256> arena{};
  OutLink out{.ring = memory->ring, .consumed = &memory->consumed, .arena = arena.data()};
  InLink in{.ring = memory->ring, .consumed = &memory->consumed, .arena = arena.data(), .arena_bytes = arena.size()};
  Header header{};
  Arrival arrival;

  void publish_bytes(uint64_t tag, size_t length) {
    std::array<unsigned char, kInlineBytes> bytes{};
    bytes.fill(static_cast<unsigned char>(tag));
    HostWire::publish_inline(out, tag, bytes.data(), length);
  }
  Poll poll(uint64_t ahead = 0) { return HostWire::poll(in, header, arrival, ahead); }
  /// Writes a descriptor for message 0 as a hostile writer could.
  void forge(uint64_t sequence, uint64_t where_kind, uint64_t length, uint64_t where) {
    Descriptor* to = slot(memory->ring, 0);
    to->tag = where_kind;
    to->length = length;
    to->where = where;
    to->sequence = sequence;
  }
};

TEST_F(Wire, DeliversWhatWasPublishedInOrder) {
  EXPECT_EQ(poll(), Poll::Empty);
  for (uint64_t m = 0; m < 50; ++m) {
    ASSERT_TRUE(HostWire::can_publish(out));
    publish_bytes(m, m % (kInlineBytes + 1));
    ASSERT_EQ(poll(), Poll::Ready);
    EXPECT_EQ(header.tag, m);
    EXPECT_EQ(header.length, m % (kInlineBytes + 1));
    EXPECT_EQ(arrival.where, Where::Inline);
    for (uint64_t b = 0; b < header.length; ++b) ASSERT_EQ(arrival.data[b], m);
    HostWire::consume(in, arrival);
    EXPECT_EQ(poll(), Poll::Empty);
  }
}

TEST_F(Wire, PublishesAnOffsetWhereTheLinkHasAnArenaAndElseAnAddress) {
  HostWire::publish_staged(out, kTagMask, arena.data() + 16, 240);
  ASSERT_EQ(poll(), Poll::Ready);
  EXPECT_EQ(header.tag, kTagMask);
  EXPECT_EQ(header.where, Where::Offset);
  EXPECT_EQ(arrival.data, arena.data() + 16);
  HostWire::consume(in, arrival);

  out.arena = nullptr;
  in.addresses = true;
  HostWire::publish_zcopy(out, 7, arena.data() + 1, 255);
  ASSERT_EQ(poll(), Poll::Ready);
  EXPECT_EQ(header.where, Where::Address);
  EXPECT_EQ(arrival.data, arena.data() + 1);
  EXPECT_EQ(out.zcopied, 2u) << "both messages must be consumed before the call ends";
}

TEST_F(Wire, IsFullAfterCapacityMessagesAndLosesNone) {
  for (uint64_t m = 0; m < kCapacity; ++m) {
    ASSERT_TRUE(HostWire::can_publish(out));
    publish_bytes(m, 1);
  }
  EXPECT_FALSE(HostWire::can_publish(out));
  for (uint64_t m = 0; m < kCapacity; ++m) {
    ASSERT_EQ(poll(m), Poll::Ready);
    EXPECT_EQ(header.tag, m);
  }
  EXPECT_EQ(poll(kCapacity), Poll::Empty);
}

TEST_F(Wire, ReturnsInlineSlotsByHalfRingsAndOthersAtOnce) {
  for (uint64_t m = 0; m < kCapacity; ++m) publish_bytes(m, 1);
  for (uint64_t m = 0; m < kCapacity / 2; ++m) {
    EXPECT_EQ(memory->consumed, 0u);
    ASSERT_EQ(poll(), Poll::Ready);
    HostWire::consume(in, arrival);
  }
  EXPECT_EQ(memory->consumed, kCapacity / 2);
  EXPECT_TRUE(HostWire::can_publish(out));
  HostWire::publish_staged(out, 0, arena.data(), 100);
  for (uint64_t m = 0; m <= kCapacity / 2; ++m) {
    ASSERT_EQ(poll(), Poll::Ready);
    HostWire::consume(in, arrival);
  }
  EXPECT_EQ(memory->consumed, kCapacity + 1);
}

TEST_F(Wire, RefusesAnInvalidSequence) {
  for (const uint64_t sequence : {uint64_t{2}, uint64_t{kCapacity + 1}, ~uint64_t{0}}) {
    forge(sequence, 1, 0, 0);
    EXPECT_EQ(poll(), Poll::Bad) << sequence;
  }
}

TEST_F(Wire, RefusesAnOffsetOutsideTheArena) {
  const uint64_t offset = static_cast<uint64_t>(Where::Offset), all = arena.size();
  forge(1, offset, all, 0);
  EXPECT_EQ(poll(), Poll::Ready);
  forge(1, offset, 0, all);
  EXPECT_EQ(poll(), Poll::Ready);
  const std::array<std::array<uint64_t, 2>, 6> lies = {
      {{all + 1, 0}, {1, all}, {all, 1}, {0, all + 1}, {~uint64_t{0}, 2}, {2, ~uint64_t{0}}}};
  for (const auto& [length, where] : lies) {
    forge(1, offset, length, where);
    EXPECT_EQ(poll(), Poll::Bad) << length << " bytes at " << where;
    EXPECT_EQ(header.length, length);
  }
}

TEST_F(Wire, RefusesAnAddressFromAnotherProcess) {
  forge(1, static_cast<uint64_t>(Where::Address), 8, reinterpret_cast<uint64_t>(arena.data()));
  EXPECT_EQ(poll(), Poll::Bad);
  in.addresses = true;
  EXPECT_EQ(poll(), Poll::Ready);
}

TEST_F(Wire, GivesRegionAndOffsetOfAMappedMessage) {
  HostWire::publish_mapped(out, 7, {.id = 3, .base = arena.data()}, arena.data() + 100, 50);
  EXPECT_EQ(out.zcopied, 1u);
  EXPECT_EQ(poll(), Poll::Bad) << "this reader maps nothing";
  in.mapped = true;
  ASSERT_EQ(poll(), Poll::Ready);
  EXPECT_EQ(header.length, 50u);
  EXPECT_EQ(header.tag, 7u);
  EXPECT_EQ(arrival.id, 3u);
  EXPECT_EQ(arrival.offset, 100u);
  EXPECT_EQ(arrival.data, nullptr);
  slot(memory->ring, 0)->mapped[1] = 0;
  EXPECT_EQ(poll(), Poll::Bad) << "there is no region 0";
}

TEST_F(Wire, RefusesAnInlinePayloadThatDoesNotFitAndAnUnknownWhere) {
  forge(1, static_cast<uint64_t>(Where::Inline), kInlineBytes + 1, 0);
  EXPECT_EQ(poll(), Poll::Bad);
  for (const uint64_t where : {0, 4, 5, 6, 0xffff}) {
    forge(1, where, 8, 0);
    EXPECT_EQ(poll(), Poll::Bad) << where;
  }
}

TEST_F(Wire, CountsAllAsConsumedOnceTheReaderHasClosed) {
  for (uint64_t m = 0; m < kCapacity; ++m) publish_bytes(m, 1);
  HostWire::close(in);
  EXPECT_TRUE(HostWire::can_publish(out));
  EXPECT_FALSE(HostWire::broken(out));
}

TEST_F(Wire, StaysFullWhenTheReadersCounterIsInvalid) {
  for (uint64_t m = 0; m < kCapacity; ++m) publish_bytes(m, 1);
  EXPECT_FALSE(HostWire::broken(out));
  for (const uint64_t claim : {uint64_t{kCapacity + 1}, ~uint64_t{1}}) {
    memory->consumed = claim;
    EXPECT_FALSE(HostWire::can_publish(out)) << claim;
    EXPECT_TRUE(HostWire::broken(out)) << claim;
  }
  memory->consumed = 5;
  EXPECT_TRUE(HostWire::can_publish(out));
  memory->consumed = 4;  // it was 5 before
  HostWire::refresh(out);
  EXPECT_EQ(out.acked, 5u);
  EXPECT_TRUE(HostWire::broken(out));
}

}  // namespace
}  // namespace tutti::link
