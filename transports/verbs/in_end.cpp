#include "transports/verbs/in_end.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/format.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint64_t kCreditEvery = 8;              // messages
constexpr uint32_t kDestinations = link::kSlots;  // for long messages that are unread or expected

}  // namespace

InEnd::InEnd(Nic& nic, const Connection::Who& who)
    : nic_(nic), landing_(nic, kLandingBytes, RegionUse::Data), connection_(nic, who) {
  out_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = who.peer};
}

Status InEnd::notice(uint32_t word) {
  const Notice notice = Notice::of(word);
  switch (notice.kind) {
    case NoticeKind::Message:
      if (notice.number != (arrived_ & kNumberMask)) break;
      return take_header();
    case NoticeKind::Stripe:
      if (((notice.number - out_.next) & kNumberMask) >= kSlots) break;
      if (++stripes_[notice.number % kSlots] >= kMostQueues) break;
      return {};
    case NoticeKind::Announce:
      if (notice.size > kLargestSize || notice.number != (longs_ & kNumberMask)) break;
      long_bytes_ = std::max(long_bytes_, uint64_t{1} << notice.size);
      first_is_small_ = !expected_.empty() && expected_.front()->bytes() < uint64_t{1} << notice.size;
      return {};
    case NoticeKind::Advert:
      break;
  }
  return {Code::ProtocolError, fmt::format("{}: the peer sent an impossible notice, {:#x}, after {} messages",
                                           connection_.name(), word, arrived_)};
}

/// The header of message `arrived_` is in the landing.
Status InEnd::take_header() {
  const uint64_t slot = arrived_ % kSlots;
  Header& header = headers_[slot];
  std::memcpy(&header, landing_.data.get() + slot * kSlotBytes, sizeof header);
  reclaim();
  if (arrived_ - out_.acked >= kSlots) return wrong("there was no room for it", header);
  if (header.number != arrived_ + 1) return wrong("it is not the next message", header);
  switch (static_cast<Delivery>(header.tag & 0xffff)) {
    case Delivery::Inline:
      if (header.length > link::kInlineBytes) return wrong("it is too long for its header", header);
      break;
    case Delivery::Eager:
      if (header.length > kEager) return wrong("it is too long for its slot", header);
      break;
    case Delivery::Landed:
      if (Status status = take_destination(header); !status.ok()) return status;
      break;
    default:
      return wrong("it has an unknown kind", header);
  }
  ++arrived_;
  return {};
}

/// The payload is, or will be when all stripes have come, in the first of the destinations that the peer knows.
Status InEnd::take_destination(const Header& header) {
  if (expected_.empty()) return wrong("no destination was advertised for it", header);
  if (header.length <= kEager || header.length > expected_.front()->bytes()) {
    return wrong("it does not fit its destination", header);
  }
  in_use_[arrived_ % kSlots] = std::move(expected_.front());
  expected_.pop_front();
  ++longs_;
  return {};
}

Status InEnd::wrong(const char* what, const Header& header) const {
  return {Code::ProtocolError,
          fmt::format("{}: message {} is invalid: {} (number {}, tag {:#x}, {} bytes)", connection_.name(), arrived_,
                      what, header.number - 1, header.tag, header.length)};
}

Status InEnd::progress(bool& moved) {
  if (!connection_.ready()) return {};
  if (Status status = publish(moved); !status.ok()) return status;
  reclaim();
  if (connection_.closed()) {
    if (connection_.received_by_peer() != Connection::kLost) return {};
    return {Code::PeerFailed,
            fmt::format("{}: the peer's process is gone, or its communicator has failed", connection_.name())};
  }
  if (Status status = send_credit(); !status.ok()) return status;
  return send_adverts();
}

bool InEnd::is_complete(const Header& header) const {
  if (in_use_[out_.next % kSlots] == nullptr) return true;
  return stripes_[out_.next % kSlots] + 1u == stripes_of(header.length, connection_.queues());
}

/// Publishes the messages that are complete.
Status InEnd::publish(bool& moved) {
  while (out_.next < arrived_) {
    const uint64_t slot = out_.next % kSlots;
    const Header& header = headers_[slot];
    if (!is_complete(header)) return {};
    if (!link::HostWire::can_publish(out_)) return wrong("there was no room for it", header);
    const uint64_t tag = header.tag >> 16;
    stripes_[slot] = 0;
    if (header.length <= link::kInlineBytes && static_cast<Delivery>(header.tag & 0xffff) == Delivery::Inline) {
      link::HostWire::publish_inline(out_, tag, header.payload, header.length);
    } else if (in_use_[slot] != nullptr) {
      link::HostWire::publish_staged(out_, tag, in_use_[slot]->data.get(), header.length);
    } else {
      link::HostWire::publish_staged(out_, tag, landing_.data.get() + slot * kSlotBytes + sizeof(Header),
                                     header.length);
    }
    moved = true;
  }
  return {};
}

/// Takes back the destinations of messages that the executor has consumed.
void InEnd::reclaim() {
  link::HostWire::refresh(out_);
  for (; reclaimed_ < out_.acked; ++reclaimed_) {
    Destination& used = in_use_[reclaimed_ % kSlots];
    if (used != nullptr) unused_.push_back(std::move(used));
  }
}

/// Tells the peer from time to time how many messages have been consumed.
Status InEnd::send_credit() {
  if (out_.acked - credited_ < kCreditEvery || !connection_.has_room(0, 2)) return {};
  credited_ = out_.acked;
  Work work{.kind = Work::Kind::Write,
            .inlined = true,
            .count = 1,
            .remote = connection_.peer().area + offsetof(Feedback, consumed),
            .remote_key = connection_.peer().area_key};
  work.pieces[0] = {&credited_, sizeof credited_, 0};
  return connection_.post(0, work);
}

/// Advertises destinations for the next long messages.
Status InEnd::send_adverts() {
  if (long_bytes_ == 0) return {};
  if (first_is_small_ && connection_.has_room(0, 2)) {
    Destination larger = make_destination();
    if (larger == nullptr) return {};
    unused_.push_back(std::exchange(expected_.front(), std::move(larger)));
    first_is_small_ = false;
    if (Status status = advertise(longs_, *expected_.front()); !status.ok()) return status;
  }
  while (expected_.size() < kAhead && connection_.has_room(0, 2)) {
    Destination to = make_destination();
    if (to == nullptr) return {};
    expected_.push_back(std::move(to));
    if (Status status = advertise(longs_ + expected_.size() - 1, *expected_.back()); !status.ok()) return status;
  }
  return {};
}

Status InEnd::advertise(uint64_t number, const Buffer& to) {
  const Advert advert{number + 1, to.region->address, to.region->bytes, to.region->remote_key};
  Work work{.kind = Work::Kind::WriteNotice,
            .inlined = true,
            .count = 1,
            .notice = Notice{NoticeKind::Advert, 0, static_cast<uint32_t>(adverts_) & kNumberMask}.word(),
            .remote = connection_.peer().area + offsetof(Feedback, adverts) + adverts_ % kAdverts * sizeof advert,
            .remote_key = connection_.peer().area_key};
  work.pieces[0] = {&advert, sizeof advert, 0};
  ++adverts_;
  return connection_.post(0, work);
}

/// A destination of `long_bytes_`; null if all are in use.
InEnd::Destination InEnd::make_destination() {
  while (!unused_.empty()) {
    Destination last = std::move(unused_.back());
    unused_.pop_back();
    if (last->bytes() >= long_bytes_) return last;
    --destinations_;
  }
  if (destinations_ >= kDestinations) return nullptr;
  ++destinations_;
  return std::make_unique<Buffer>(nic_, long_bytes_, RegionUse::Data);
}

}  // namespace tutti::transports::verbs
