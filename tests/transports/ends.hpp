// The two ends of a link as an executor uses them, and payloads that show whether they are complete.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/format.hpp"
#include "link/cma.hpp"
#include "link/host_memory.hpp"
#include "transports/rank_group.hpp"

namespace tutti::test {

using link::HostWire;
using link::kCapacity;
using link::kInlineBytes;
using Payload = std::vector<unsigned char>;

/// `length` bytes that are unique to this message.
inline Payload payload_of(uint64_t message, uint64_t length) {
  Payload bytes(length);
  uint64_t state = (message + 1) * 0x9e3779b97f4a7c15;
  for (unsigned char& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return bytes;
}

class Writer {
 public:
  /// Reserves staging for the link's capacity of messages of `largest` bytes, at most `share` of the staging memory.
  Writer(TestRank& self, Rank to, uint32_t link_lane, uint64_t largest, double share = 1)
      : self_(self),
        link_(self.transport->connect_out(to, link_lane, Deadline::in(kWaitLimit))),
        largest_((largest + 63) / 64 * 64),
        staging_(self.arena.staging() + self.staged) {
    const auto room = static_cast<uint64_t>(share * static_cast<double>(self.arena.staging_bytes()));
    slots_ = std::min<uint64_t>(kCapacity, largest_ == 0 ? kCapacity : room / largest_);
    self.staged += slots_ * largest_;
    if (slots_ == 0 || self.staged > self.arena.staging_bytes()) throw_error(Code::OutOfMemory, "no staging");
  }

  bool try_write(uint64_t tag, const Payload& bytes) {
    if (!HostWire::can_publish(link_)) return false;
    if (bytes.size() <= kInlineBytes) {
      HostWire::publish_inline(link_, tag, bytes.data(), bytes.size());
      return true;
    }
    if (link_.push_bytes > 0) return try_push(tag, bytes);
    if (bytes.size() > largest_) throw_error(Code::InvalidArgument, "{} bytes do not fit", bytes.size());
    // Wait for the message that used this part of the staging, not for a number of messages: the reader acknowledges
    // inline messages late, but this one at once.
    const uint64_t part = staged_ % slots_;
    HostWire::refresh(link_);
    if (staged_ >= slots_ && link_.acked <= user_[part]) return false;
    user_[part] = link_.next;
    ++staged_;
    unsigned char* const at = staging_ + part * largest_;
    std::memcpy(at, bytes.data(), bytes.size());
    HostWire::publish_staged(link_, tag, at, bytes.size());
    return true;
  }
  /// Messages that fit while nothing is read.
  uint64_t room() const { return link_.push_bytes > 0 ? link::kPushSlots : kCapacity; }
  bool try_push(uint64_t tag, const Payload& bytes) {
    if (bytes.size() > link_.push_bytes) throw_error(Code::InvalidArgument, "{} bytes do not fit", bytes.size());
    if (!HostWire::can_push(link_)) return false;
    std::memcpy(link::push_slot(link_), bytes.data(), bytes.size());
    HostWire::publish_pushed(link_, tag, bytes.size());
    return true;
  }
  void write(uint64_t tag, const Payload& bytes) {
    self_.until([&] { return try_write(tag, bytes); }, "room in a link");
  }
  /// Publishes `bytes` zero-copy; they must not change before returned().
  void write_zcopy(uint64_t tag, const Payload& bytes) {
    self_.until([&] { return HostWire::can_publish(link_); }, "room in a link");
    HostWire::publish_zcopy(link_, tag, bytes.data(), bytes.size());
  }
  bool returned() {
    HostWire::refresh(link_);
    return link_.acked >= link_.zcopied;
  }
  link::OutLink& link() { return link_; }

 private:
  TestRank& self_;
  link::OutLink link_;
  uint64_t largest_;
  unsigned char* staging_;
  uint64_t slots_ = 0;
  uint64_t staged_ = 0;                        // staged messages
  std::array<uint64_t, kCapacity> user_ = {};  // the message in each part of the staging
};

class Reader {
 public:
  Reader(TestRank& self, Rank from, uint32_t link_lane)
      : self_(self), link_(self.transport->connect_in(from, link_lane, Deadline::in(kWaitLimit))) {}

  /// Has the next message come? Throws Error(ProtocolError) if it is invalid.
  bool ready() {
    const link::Poll poll = HostWire::poll(link_, header_, arrival_);
    if (poll == link::Poll::Bad) throw_error(Code::ProtocolError, "a bad descriptor");
    return poll == link::Poll::Ready;
  }
  /// After ready(): compares the message with `expected`, and consumes it.
  void take(uint64_t tag, const Payload& expected) {
    ASSERT_EQ(header_.tag, tag);
    ASSERT_EQ(header_.length, expected.size());
    if (arrival_.where == link::Where::Cma) {
      copy_.resize(header_.length);
      ASSERT_EQ(link::cma_read(static_cast<int>(arrival_.id), arrival_.data, copy_.data(), copy_.size()), 0);
      arrival_.data = copy_.data();
    }
    if (!expected.empty()) {
      ASSERT_EQ(std::memcmp(arrival_.data, expected.data(), expected.size()), 0) << "message " << link_.next;
    }
    HostWire::consume(link_, arrival_);
  }
  void read(uint64_t tag, const Payload& expected) {
    self_.until([&] { return ready(); }, "a message");
    take(tag, expected);
  }
  /// Tells the link's engine where the payload of the next message belongs.
  void post(uint64_t tag, unsigned char* to, uint64_t length) { HostWire::post(link_, tag, length, to); }
  /// After ready(): where the payload is.
  const unsigned char* at() const { return arrival_.data; }
  /// After ready(): consumes the message unseen.
  void drop() { HostWire::consume(link_, arrival_); }
  /// After ready(): the length of the message.
  uint64_t length() const { return header_.length; }

 private:
  TestRank& self_;
  link::InLink link_;
  link::Header header_{};
  link::Arrival arrival_;
  Payload copy_;
};

}  // namespace tutti::test
