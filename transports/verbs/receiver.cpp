#include "transports/verbs/receiver.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/format.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint64_t kCreditEvery = 8;                           // messages
constexpr uint32_t kDestinations = link::kSlots + kPreposted;  // buffers, for long messages that are unread or expected
constexpr uint32_t kPrepostedSize = 16;
static_assert(uint64_t{1} << kPrepostedSize == kMaxPreposted);

}  // namespace

Receiver::Receiver(Nic& nic, Memory& memory, const Connection::Who& who)
    : nic_(nic), memory_(memory), eager_ring_(nic, kEagerRingBytes, RegionUse::Data), connection_(nic, who) {
  out_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = who.peer};
}

Status Receiver::notice(uint32_t word) {
  const Notice notice = Notice::of(word);
  switch (notice.kind) {
    case NoticeKind::Message:
      if (notice.number != (arrived_ & kNumberMask)) break;
      return take_header();
    case NoticeKind::Stripe:
      if (((notice.number - out_.next) & kNumberMask) >= kSlots) break;
      if (++stripes_[notice.number % kSlots] >= kMaxQueues) break;
      return {};
    case NoticeKind::Announce:
      if (!announced(notice)) break;
      return {};
    case NoticeKind::Posted:
      if (notice.number != (arrived_ & kNumberMask) || posted_next_.posted.to == 0) break;
      return take_posted();
  }
  return {Code::ProtocolError, fmt::format("{}: the peer sent an impossible notice, {:#x}, after {} messages",
                                           connection_.name(), word, arrived_)};
}

/// The peer has a message and no destination for it. False: that is impossible.
bool Receiver::announced(const Notice& notice) {
  const uint32_t size = notice.size & ~kNotThere;
  if (size > kLargestSize ||
      notice.number != ((size <= kPrepostedSize ? preposted_count_ : rendezvous_count_) & kNumberMask))
    return false;
  if (size <= kPrepostedSize) {
    wants_preposted_ = true;
    return true;
  }
  rendezvous_.announced = true;
  rendezvous_.bytes = uint64_t{1} << size;
  rendezvous_.refused = rendezvous_.refused || (notice.size & kNotThere) != 0;
  return true;
}

/// The header of message `arrived_` is in the eager ring.
Status Receiver::take_header() {
  const uint64_t slot = arrived_ % kSlots;
  Header& header = headers_[slot];
  std::memcpy(&header, eager_ring_.data.get() + slot * kSlotBytes, sizeof header);
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
    case Delivery::Preposted:
      if (Status status = take_preposted(header); !status.ok()) return status;
      break;
    case Delivery::Rendezvous:
      if (Status status = take_rendezvous(header); !status.ok()) return status;
      break;
    default:
      return wrong("it has an unknown kind", header);
  }
  ++arrived_;
  posted_next_ = {};  // the peer has used another destination
  return {};
}

/// The payload is in the first of the buffers that the peer knows.
Status Receiver::take_preposted(const Header& header) {
  if (preposted_.empty()) return wrong("no destination was advertised for it", header);
  if (header.length <= kEager || header.length > preposted_.front().bytes) {
    return wrong("it does not fit its destination", header);
  }
  in_use_[arrived_ % kSlots] = std::move(preposted_.front());
  preposted_.pop_front();
  ++preposted_count_;
  return {};
}

/// The payload is, or will be when all stripes have come, in the buffer that was advertised for it.
Status Receiver::take_rendezvous(const Header& header) {
  if (!rendezvous_.buffer) return wrong("no destination was advertised for it", header);
  if (header.length <= kMaxPreposted || header.length > rendezvous_.buffer.bytes) {
    return wrong("it does not fit its destination", header);
  }
  in_use_[arrived_ % kSlots] = std::move(rendezvous_.buffer);
  rendezvous_ = {};
  ++rendezvous_count_;
  return {};
}

/// Message `arrived_` is, or will be when all stripes have come, where the executor wants it.
Status Receiver::take_posted() {
  Header& header = headers_[arrived_ % kSlots];
  const link::Posted& posted = posted_next_.posted;
  header = {arrived_ + 1, posted.tag << 16 | static_cast<uint64_t>(Delivery::Rendezvous), posted.length, {}};
  reclaim();
  if (arrived_ - out_.acked >= kSlots) return wrong("there was no room for it", header);
  if (posted.length > kMaxPreposted) {
    release(std::move(rendezvous_.buffer));
    rendezvous_ = {};
    ++rendezvous_count_;
  }
  in_use_[arrived_ % kSlots] = Destination::of(std::move(posted_next_.region), posted);
  posted_next_ = {};
  ++arrived_;
  return {};
}

Status Receiver::wrong(const char* what, const Header& header) const {
  return {Code::ProtocolError,
          fmt::format("{}: message {} is invalid: {} (number {}, tag {:#x}, {} bytes)", connection_.name(), arrived_,
                      what, header.number - 1, header.tag, header.length)};
}

Status Receiver::progress(bool& moved) {
  if (!connection_.ready()) return {};
  if (Status status = publish(moved); !status.ok()) return status;
  reclaim();
  if (connection_.closed()) {
    if (connection_.received_by_peer() != Connection::kLost) return {};
    return {Code::PeerFailed,
            fmt::format("{}: the peer's process is gone, or its communicator has failed", connection_.name())};
  }
  if (Status status = send_credit(); !status.ok()) return status;
  if (Status status = send_preposted(); !status.ok()) return status;
  return send_rendezvous();
}

bool Receiver::is_complete(const Header& header) const {
  if (in_use_[out_.next % kSlots].at == nullptr) return true;
  return stripes_[out_.next % kSlots] + 1u == stripes_of(header.length, connection_.queues());
}

/// Publishes the messages that are complete.
Status Receiver::publish(bool& moved) {
  while (out_.next < arrived_) {
    const uint64_t slot = out_.next % kSlots;
    const Header& header = headers_[slot];
    if (!is_complete(header)) return {};
    if (!link::HostWire::can_publish(out_)) return wrong("there was no room for it", header);
    const uint64_t tag = header.tag >> 16;
    stripes_[slot] = 0;
    if (header.length <= link::kInlineBytes && static_cast<Delivery>(header.tag & 0xffff) == Delivery::Inline) {
      link::HostWire::publish_inline(out_, tag, header.payload, header.length);
    } else if (in_use_[slot].at != nullptr) {
      link::HostWire::publish_staged(out_, tag, in_use_[slot].at, header.length);
    } else {
      link::HostWire::publish_staged(out_, tag, eager_ring_.data.get() + slot * kSlotBytes + sizeof(Header),
                                     header.length);
    }
    moved = true;
  }
  return {};
}

/// Takes back the destinations of messages that the executor has consumed.
void Receiver::reclaim() {
  link::HostWire::refresh(out_);
  for (; reclaimed_ < out_.acked; ++reclaimed_) {
    Destination used = std::exchange(in_use_[reclaimed_ % kSlots], {});
    if (used.own != nullptr) release(std::move(used));  // else the executor posts it again
  }
}

/// Tells the peer from time to time how many messages have been consumed.
Status Receiver::send_credit() {
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

/// Advertises destinations for the next messages of up to kMaxPreposted bytes. Where the executor has posted some for
/// any message, the peer sends none that is longer than these.
Status Receiver::send_preposted() {
  while (wants_preposted_ && preposted_.size() < kPreposted && connection_.has_room(0, 2)) {
    Destination to = take_posted_any(kEager + 1);
    if (!to) to = make_destination(kMaxPreposted);
    if (!to) return {};
    preposted_.push_back(std::move(to));
    if (Status status =
            advertise(preposted_.back().advert(preposted_count_ + preposted_.size(), AdvertKind::Preposted));
        !status.ok()) {
      return status;
    }
  }
  return {};
}

/// Advertises where the executor waits for the next message; or a buffer for a longer one, if the peer asks before the
/// executor does.
Status Receiver::send_rendezvous() {
  if (!connection_.has_room(0, 2)) return {};
  if (find_posted()) {
    const link::Posted& posted = posted_next_.posted;
    return advertise({posted_next_.number, posted.to, posted.length, posted.tag, posted_next_.region->remote_key,
                      AdvertKind::Posted});
  }
  const bool wanted = rendezvous_.announced && (posted_next_.posted.to == 0 || rendezvous_.refused);
  if (!wanted || rendezvous_.buffer) return {};
  rendezvous_.buffer = take_posted_any(rendezvous_.bytes);
  if (!rendezvous_.buffer) rendezvous_.buffer = make_destination(rendezvous_.bytes);
  if (!rendezvous_.buffer) return {};
  return advertise(rendezvous_.buffer.advert(rendezvous_count_ + 1, AdvertKind::Buffer));
}

/// Has the executor posted a destination for the next message, that the peer can write to and does not know yet?
bool Receiver::find_posted() {
  if (arrived_ != out_.next || posted_next_.number == arrived_ + 1 || rendezvous_.buffer) return false;
  const link::Posted posted = link::HostWire::posted_for(posted_.get(), out_.next);
  if (posted.to == 0 || posted.tag == link::kAnyTag) return false;  // an advert names the message
  posted_next_ = {.number = arrived_ + 1, .posted = {}, .region = nullptr};
  if (posted.length <= kEager || posted.length > kMaxMessage) return false;
  posted_next_.region = memory_.find(reinterpret_cast<const void*>(posted.to), posted.length, RegionUse::Data);
  if (posted_next_.region == nullptr) return false;
  posted_next_.posted = posted;
  return true;
}

Status Receiver::advertise(const Advert& advert) {
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

Receiver::Destination Receiver::Destination::of(std::unique_ptr<Buffer> buffer) {
  Destination made;
  made.at = buffer->data.get();
  made.bytes = buffer->bytes();
  made.key = buffer->region->remote_key;
  made.own = std::move(buffer);
  return made;
}

Receiver::Destination Receiver::Destination::of(std::shared_ptr<const Region> region, const link::Posted& posted) {
  Destination made;
  made.at = reinterpret_cast<unsigned char*>(posted.to);
  made.bytes = posted.length;
  made.key = region->remote_key;
  made.posted = std::move(region);
  return made;
}

/// What the executor has posted for any message, of at least so many bytes; none: there is none left.
Receiver::Destination Receiver::take_posted_any(uint64_t bytes) {
  for (;; ++posted_any_next_) {
    const link::Posted posted = link::HostWire::posted_for(posted_.get(), posted_any_next_);
    if (posted.to == 0 || posted.tag != link::kAnyTag) break;
    auto region = memory_.find(reinterpret_cast<const void*>(posted.to), posted.length, RegionUse::Data);
    if (region != nullptr) posted_any_.push_back(Destination::of(std::move(region), posted));
  }
  const auto fits = [bytes](const Destination& one) { return one.bytes >= bytes; };
  const auto found = std::find_if(posted_any_.begin(), posted_any_.end(), fits);
  if (found == posted_any_.end()) return {};
  Destination taken = std::move(*found);
  posted_any_.erase(found);
  return taken;
}

void Receiver::release(Destination destination) {
  if (!destination) return;
  if (destination.own != nullptr) {
    unused_.push_back(std::move(destination));
  } else {
    posted_any_.push_back(std::move(destination));
  }
}

/// A buffer of at least so many bytes; none if all are in use.
Receiver::Destination Receiver::make_destination(uint64_t bytes) {
  const auto fits = [bytes](const Destination& one) { return one.bytes >= bytes; };
  if (const auto found = std::find_if(unused_.rbegin(), unused_.rend(), fits); found != unused_.rend()) {
    Destination taken = std::move(*found);
    unused_.erase(std::next(found).base());
    return taken;
  }
  if (destinations_ >= kDestinations && !unused_.empty()) {
    unused_.pop_back();
    --destinations_;
  }
  if (destinations_ >= kDestinations) return {};
  ++destinations_;
  return Destination::of(std::make_unique<Buffer>(nic_, bytes, RegionUse::Data));
}

}  // namespace tutti::transports::verbs
