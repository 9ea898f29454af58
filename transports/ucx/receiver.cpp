#include "transports/ucx/receiver.hpp"

#include <new>
#include <utility>

#include "base/format.hpp"

namespace tutti::transports::ucx {
namespace {

constexpr uint64_t kCreditEvery = 8;         // messages
constexpr uint32_t kBuffers = link::kSlots;  // for long messages that are unread or on their way

}  // namespace

Receiver::Receiver(Fabric& fabric, const Stream::Who& who) : fabric_(fabric), stream_(who) {
  out_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = who.peer};
}

bool Receiver::take(const Message& message, void* data, uint64_t bytes, bool announced) {
  if (stopped_ || !failure_.ok()) return false;
  reclaim();
  Slot& slot = slots_[message.number % kSlots];
  const char* what = check(message, bytes, announced, out_.acked);
  if (what == nullptr && (message.number < out_.next || slot.state != State::Missing)) what = "it has come before";
  if (what != nullptr) {
    failure_ = {Code::ProtocolError,
                fmt::format("{}: a message is invalid: {} (number {} after {}, tag {:#x}, {} bytes)", stream_.name(),
                            what, message.number, out_.next, message.tag, message.length)};
    return false;
  }
  slot.header = message;
  if (announced) {
    slot.announced = data;
    slot.state = State::Announced;
    return true;
  }
  place(slot, data);
  return false;
}

/// Copies a payload that has come with its header.
void Receiver::place(Slot& slot, const void* data) {
  const uint64_t length = slot.header.length;
  unsigned char* to = slot.small;
  if (length > link::kInlineBytes) {
    if (eager_ == nullptr) eager_.reset(new (std::nothrow) unsigned char[kSlots * kEager]);
    if (eager_ == nullptr) {
      failure_ = {Code::OutOfMemory, fmt::format("{}: no memory for messages of {} bytes", stream_.name(), kEager)};
      return;
    }
    to = eager_.get() + slot.header.number % kSlots * kEager;
  }
  if (length > 0) std::memcpy(to, data, length);
  slot.state = State::Here;
}

Status Receiver::progress(bool& moved) {
  if (stopped_ || !stream_.ready()) return {};
  if (!failure_.ok()) return failure_;
  reclaim();
  if (Status status = fetch_next(moved); !status.ok()) return status;
  if (Status status = publish(moved); !status.ok()) return status;
  if (stream_.closed()) {
    if (stream_.received_by_peer() != Stream::kLost) return {};
    return {Code::PeerFailed,
            fmt::format("{}: the peer's process is gone, or its communicator has failed", stream_.name())};
  }
  return send_credit();
}

/// Fetches announced payloads, in order, as long as there are buffers.
Status Receiver::fetch_next(bool& moved) {
  to_fetch_ = std::max(to_fetch_, out_.next);
  for (; to_fetch_ < out_.acked + kSlots; ++to_fetch_) {
    Slot& slot = slots_[to_fetch_ % kSlots];
    if (slot.state == State::Missing) return {};
    if (slot.state != State::Announced) continue;
    if (buffers_ >= kBuffers) return {};
    if (!find_place(slot)) {
      return {Code::OutOfMemory,
              fmt::format("{}: no memory for a message of {} bytes", stream_.name(), slot.header.length)};
    }
    slot.state = State::Fetched;
    fabric_.fetch(std::exchange(slot.announced, nullptr), slot.to, slot.header.length, slot.fetch);
    moved = true;
  }
  return {};
}

/// Where the executor waits for the payload, or a buffer. False: no memory.
bool Receiver::find_place(Slot& slot) {
  const Message& header = slot.header;
  slot.to = link::HostWire::posted(posted_.get(), header.number, header.tag, header.length);
  if (slot.to != nullptr) return true;
  if (!unused_.empty()) {
    slot.buffer = std::move(unused_.back());
    unused_.pop_back();
  }
  if (slot.buffer.size < slot.header.length) {
    slot.buffer.bytes.reset();
    slot.buffer.bytes.reset(new (std::nothrow) unsigned char[slot.header.length]);
    slot.buffer.size = slot.buffer.bytes != nullptr ? slot.header.length : 0;
  }
  if (slot.buffer.size == 0) return false;
  slot.to = slot.buffer.bytes.get();
  ++buffers_;
  return true;
}

/// Publishes the messages that are complete.
Status Receiver::publish(bool& moved) {
  while (link::HostWire::can_publish(out_)) {
    const uint64_t index = out_.next % kSlots;
    Slot& slot = slots_[index];
    if (slot.state == State::Missing || slot.state == State::Announced) return {};
    if (slot.state == State::Fetched && slot.fetch.under_way()) return {};
    if (slot.state == State::Fetched && slot.fetch.failed()) return stream_.lost(slot.fetch.text);
    const uint64_t length = slot.header.length;
    if (length <= link::kInlineBytes) {
      link::HostWire::publish_inline(out_, slot.header.tag, slot.small, length);
    } else {
      const unsigned char* const at = slot.state == State::Fetched ? slot.to : eager_.get() + index * kEager;
      link::HostWire::publish_staged(out_, slot.header.tag, at, length);
    }
    slot.state = State::Missing;
    moved = true;
  }
  return {};
}

/// Takes back the buffers of messages that the executor has consumed.
void Receiver::reclaim() {
  link::HostWire::refresh(out_);
  for (; reclaimed_ < out_.acked; ++reclaimed_) {
    Buffer& buffer = slots_[reclaimed_ % kSlots].buffer;
    if (buffer.bytes == nullptr) continue;
    unused_.push_back(std::move(buffer));
    buffer = {};
    --buffers_;
  }
}

/// Tells the peer from time to time how many messages have been consumed.
Status Receiver::send_credit() {
  if (crediting_.failed()) return stream_.lost(crediting_.text);
  if (out_.acked - credited_ < kCreditEvery || crediting_.under_way()) return {};
  credited_ = out_.acked;
  credit_ = {stream_.peer().token, credited_, stream_.peer().end};
  fabric_.send(out_.peer, kCreditId, {&credit_, sizeof credit_}, {}, false, crediting_);
  return {};
}

void Receiver::drop_announced() {
  for (Slot& slot : slots_) {
    if (slot.state == State::Announced) fabric_.drop(std::exchange(slot.announced, nullptr));
    if (slot.state == State::Announced) slot.state = State::Missing;
  }
}

void Receiver::stop() {
  stopped_ = true;
  drop_announced();
}

}  // namespace tutti::transports::ucx
