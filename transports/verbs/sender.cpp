#include "transports/verbs/sender.hpp"

#include <algorithm>
#include <cstring>

#include "base/format.hpp"

namespace tutti::transports::verbs {
namespace {

uint64_t slot_offset(uint64_t message) { return message % kSlots * kSlotBytes; }

}  // namespace

Sender::Sender(Nic& nic, Memory& memory, const Connection::Who& who)
    : nic_(nic),
      memory_(memory),
      headers_(nic, kSlots * sizeof(Header), RegionUse::Send),
      area_memory_(nic, sizeof(Feedback), RegionUse::Words),
      connection_(nic, who) {
  in_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = who.peer, .addresses = true};
}

bool Sender::waiting() const {
  if (stopped_) return false;
  link::Header header{};
  link::Arrival arrival;
  return link::HostWire::poll(in_, header, arrival, preposted_) != link::Poll::Empty;
}

Status Sender::progress(bool& moved) {
  if (stopped_) return {};
  if (connection_.closed()) return check_closed();
  if (!connection_.ready()) return {};
  consume();
  link::Header header{};
  link::Arrival arrival;
  blocked_ = false;
  while (preposted_ < link::kCapacity) {
    const link::Poll poll = link::HostWire::poll(in_, header, arrival, preposted_);
    if (poll == link::Poll::Empty) return {};
    if (poll == link::Poll::Bad || header.length > kMaxMessage) {
      return {Code::InternalError,
              fmt::format("{}: message {}, {} bytes, cannot be sent", connection_.name(), next(), header.length)};
    }
    bool posted = false;
    if (has_slot()) {
      if (Status status = post_next(header, arrival, posted); !status.ok()) return status;
    }
    blocked_ = !posted;
    if (blocked_) return {};
    moved = true;
    consume();
  }
  return {};
}

/// Has the reader's eager ring a free slot? A count that is less than before is late, and one that is too large is
/// wrong.
bool Sender::has_slot() {
  if (next() - credit_ < kSlots) return true;
  const auto* feedback = reinterpret_cast<const Feedback*>(area_->data.get());
  const uint64_t consumed = link::HostMemory::load_acquire(&feedback->consumed);
  if (consumed > credit_ && consumed <= next()) credit_ = consumed;
  return next() - credit_ < kSlots;
}

Status Sender::post_next(const link::Header& header, const link::Arrival& arrival, bool& posted) {
  if (!connection_.has_room(0, 4)) return {};
  if (header.length <= kEager) return post_small(header, arrival, posted);
  return post_long(header, arrival.data, posted);
}

/// Header and payload are one write.
Status Sender::post_small(const link::Header& header, const link::Arrival& arrival, bool& posted) {
  const unsigned char* const data = arrival.data;
  Sent& sent = sent_[next() % link::kCapacity];
  auto device = arrival.where != link::Where::Inline ? memory_.find_device(data, header.length) : nullptr;
  const bool fits = header.length <= link::kInlineBytes && device == nullptr;
  Header out{next() + 1,
             header.tag << 16 | static_cast<uint64_t>(fits ? Delivery::Inline : Delivery::Eager),
             header.length,
             {}};
  Piece payload{data, static_cast<uint32_t>(header.length), 0};
  bool inlined = device == nullptr && sizeof out + (fits ? 0 : header.length) <= nic_.info().max_inline;
  Bounce* bounce = nullptr;
  if (fits) {
    std::memcpy(out.payload, data, header.length);
  } else if (!inlined) {
    sent.source = device != nullptr ? std::move(device) : memory_.find(data, header.length);
    if (sent.source != nullptr) {
      payload.key = sent.source->local_key;
    } else {
      bounce = free_bounce();
      if (bounce == nullptr) return {};
      std::memcpy(bounce->memory.data.get(), data, header.length);
      payload.at = bounce->memory.data.get();
      payload.key = bounce->memory.region->local_key;
    }
  }
  if (Status status = post_header(out, fits ? nullptr : &payload, inlined, !inlined); !status.ok()) return status;
  if (bounce != nullptr) bounce->busy = connection_.place(0);
  sent.count = 0;
  if (!inlined) sent.places[sent.count++] = connection_.place(0);
  ++preposted_;
  posted = true;
  return {};
}

/// Writes a header, and the payload behind it if there is one, to the message's slot, and notifies the reader.
Status Sender::post_header(Header& header, const Piece* payload, bool inlined, bool completes) {
  const uint64_t index = next() % kSlots;
  Work work{.kind = Work::Kind::WriteNotice,
            .completes = completes,
            .inlined = inlined,
            .count = 1,
            .notice = Notice{NoticeKind::Message, 0, static_cast<uint32_t>(next()) & kNumberMask}.word(),
            .remote = connection_.peer().area + slot_offset(next()),
            .remote_key = connection_.peer().area_key};
  work.pieces[0] = {&header, sizeof header, 0};
  if (!inlined) {  // the slot's last header has been sent: its message is consumed
    unsigned char* const copy = headers_.data.get() + index * sizeof header;
    std::memcpy(copy, &header, sizeof header);
    work.pieces[0] = {copy, sizeof header, headers_.region->local_key};
  }
  if (payload != nullptr) work.pieces[work.count++] = *payload;
  return connection_.post(0, work);
}

/// The payload goes to the destination that the reader has advertised, in stripes over all queues. A notice at the end
/// of the first stripe tells of it at a posted destination; else a header does.
Status Sender::post_long(const link::Header& header, const unsigned char* data, bool& posted) {
  if (!long_.begun) {
    if (Status status = begin_long(header, data); !status.ok() || !long_.begun) return status;
  }
  const uint32_t stripes = stripes_of(header.length, connection_.queues());
  while (long_.done < header.length) {
    bool some = false;
    if (Status status = post_chunk(header, data, stripes, some); !status.ok()) return status;
    if (!some) return {};
  }
  if (long_.to.kind != AdvertKind::Posted) {
    if (!connection_.has_room(0, 2)) return {};
    const Delivery delivery = long_.to.kind == AdvertKind::Preposted ? Delivery::Preposted : Delivery::Rendezvous;
    Header out{next() + 1, header.tag << 16 | static_cast<uint64_t>(delivery), header.length, {}};
    const bool inlined = sizeof out <= nic_.info().max_inline;
    if (Status status = post_header(out, nullptr, inlined, true); !status.ok()) return status;
  }
  Sent& sent = sent_[next() % link::kCapacity];
  for (sent.count = 0; sent.count < stripes; ++sent.count) sent.places[sent.count] = connection_.place(sent.count);
  sent.source = std::move(long_.source);
  if (long_.to.kind == AdvertKind::Preposted) ++preposted_count_;
  if (header.length > kMaxPreposted) ++rendezvous_count_;
  long_ = {};
  ++preposted_;
  posted = true;
  return {};
}

/// Begins the message if there is a destination for it; asks for one if not.
Status Sender::begin_long(const link::Header& header, const unsigned char* data) {
  const Advert* const to = destination_of(header);
  if (to == nullptr) {
    const bool refuses = header.length > kMaxPreposted && posted_.number == next() + 1;
    if (long_.announced && refuses == long_.refused) return {};
    return announce(header.length, refuses);
  }
  if (header.length > to->bytes) {
    return {Code::ProtocolError,
            fmt::format("{}: message {}, {} bytes, is longer than those for which the peer has room, {}",
                        connection_.name(), next(), header.length, to->bytes)};
  }
  long_.to = *to;
  long_.source = memory_.find(data, header.length);
  long_.begun = true;
  return {};
}

/// The advertised destination of the next message; null if there is none.
const Advert* Sender::destination_of(const link::Header& header) const {
  if (posted_.number == next() + 1 && posted_.bytes == header.length && posted_.tag == header.tag) return &posted_;
  if (header.length <= kMaxPreposted) {
    const Advert& ahead = ahead_adverts_[preposted_count_ % kAdverts];
    return ahead.number == preposted_count_ + 1 ? &ahead : nullptr;
  }
  return buffer_.number == rendezvous_count_ + 1 && buffer_.bytes >= header.length ? &buffer_ : nullptr;
}

/// `refuses`: the reader has posted a destination that is for another message.
Status Sender::announce(uint64_t length, bool refuses) {
  const uint32_t size = static_cast<uint32_t>(std::bit_width(length - 1)) | (refuses ? kNotThere : 0);
  const uint64_t number = length <= kMaxPreposted ? preposted_count_ : rendezvous_count_;
  Work work{.kind = Work::Kind::WriteNotice,
            .notice = Notice{NoticeKind::Announce, size, static_cast<uint32_t>(number) & kNumberMask}.word(),
            .remote = connection_.peer().area,
            .remote_key = connection_.peer().area_key};
  long_.announced = true;
  long_.refused = refuses;
  return connection_.post(0, work);
}

/// Posts the next bytes: up to the end of their stripe, or as many as fit into a bounce buffer.
Status Sender::post_chunk(const link::Header& header, const unsigned char* data, uint32_t stripes, bool& posted) {
  uint32_t queue = 0;
  while (long_.done >= stripe_of(header.length, stripes, queue).end) ++queue;
  if (!connection_.has_room(queue, 4)) return {};
  const uint64_t end = stripe_of(header.length, stripes, queue).end;
  Piece piece{data + long_.done, 0, 0};
  Bounce* bounce = nullptr;
  uint64_t bytes = end - long_.done;
  if (long_.source != nullptr) {
    piece.key = long_.source->local_key;
  } else {
    bounce = free_bounce();
    if (bounce == nullptr) return {};
    bytes = std::min(bytes, kBounceBytes);
    std::memcpy(bounce->memory.data.get(), piece.at, bytes);
    piece.at = bounce->memory.data.get();
    piece.key = bounce->memory.region->local_key;
  }
  piece.bytes = static_cast<uint32_t>(bytes);
  const bool first = queue == 0, tells = !first || long_.to.kind == AdvertKind::Posted;
  Work work{
      .kind = Work::Kind::Write,
      .completes = bounce != nullptr,
      .count = 1,
      .notice = Notice{first ? NoticeKind::Posted : NoticeKind::Stripe, 0, static_cast<uint32_t>(next()) & kNumberMask}
                    .word(),
      .remote = long_.to.address + long_.done,
      .remote_key = long_.to.key};
  work.pieces[0] = piece;
  const bool last = tells && long_.done + bytes == end;
  if (Status status = last ? post_last(queue, work) : connection_.post(queue, work); !status.ok()) return status;
  if (bounce != nullptr) bounce->busy = connection_.place(queue);
  long_.done += bytes;
  posted = true;
  return {};
}

/// Posts the last write of a stripe, with its notice. Networks route each packet of a write by itself only if it has
/// none; there the notice follows in a write of nothing.
Status Sender::post_last(uint32_t queue, Work& work) {
  Work notice = work;
  if (nic_.info().adaptive) {
    if (Status status = connection_.post(queue, work); !status.ok()) return status;
    notice.count = 0;
  }
  notice.kind = Work::Kind::WriteNotice;
  notice.completes = true;
  return connection_.post(queue, notice);
}

Sender::Bounce* Sender::free_bounce() {
  for (Bounce& bounce : bounces_) {
    if (bounce.memory.data == nullptr) {
      bounce.memory = Buffer(nic_, kBounceBytes, RegionUse::Send);
      return &bounce;
    }
    if (connection_.is_done(bounce.busy)) return &bounce;
  }
  return nullptr;
}

/// Consumes the messages that the device needs no more.
void Sender::consume() {
  link::Header header{};
  link::Arrival arrival;
  for (; preposted_ > 0; --preposted_) {
    Sent& sent = sent_[in_.next % link::kCapacity];
    for (uint32_t i = 0; i < sent.count; ++i) {
      if (!connection_.is_done(sent.places[i])) return;
    }
    if (link::HostWire::poll(in_, header, arrival) != link::Poll::Ready) return;
    sent.source.reset();
    link::HostWire::consume(in_, arrival);
  }
}

Status Sender::notice(uint32_t word) {
  const Notice notice = Notice::of(word);
  if (notice.kind != NoticeKind::Advert || notice.number != (adverts_read_ & kNumberMask)) {
    return {Code::ProtocolError,
            fmt::format("{}: the peer sent an impossible notice, {:#x}", connection_.name(), word)};
  }
  Advert advert;
  std::memcpy(&advert, &reinterpret_cast<const Feedback*>(area_->data.get())->adverts[adverts_read_ % kAdverts],
              sizeof advert);
  ++adverts_read_;
  return take_advert(advert);
}

Status Sender::take_advert(const Advert& advert) {
  switch (advert.kind) {
    case AdvertKind::Preposted:
      if (advert.number == 0 || advert.number - 1 - preposted_count_ >= kAdverts || advert.bytes <= kEager) break;
      ahead_adverts_[(advert.number - 1) % kAdverts] = advert;
      return {};
    case AdvertKind::Buffer:
      if (advert.number != rendezvous_count_ + 1) break;
      buffer_ = advert;
      return {};
    case AdvertKind::Posted:  // of a message that has begun to go elsewhere, it comes too late
      if (advert.number == 0 || advert.number - 1 > next()) break;
      posted_ = advert;
      return {};
  }
  return {Code::ProtocolError,
          fmt::format("{}: the peer advertised an impossible destination (kind {}, for message {}, {} bytes; after {} "
                      "messages of up to {} bytes and {} longer ones)",
                      connection_.name(), static_cast<uint32_t>(advert.kind), advert.number - 1, advert.bytes,
                      preposted_count_, kMaxPreposted, rendezvous_count_)};
}

/// The peer has closed the link: is anything lost?
Status Sender::check_closed() {
  const uint64_t received = connection_.received_by_peer();
  const bool has_all = received != Connection::kLost && received >= next();
  if (has_all) connection_.assume_all_done();
  consume();
  if (has_all || (connection_.ready() && connection_.all_done())) {
    if (!waiting()) return {};
  }
  return gone();
}

Status Sender::gone() const {
  return {Code::PeerFailed,
          fmt::format("{}: the peer closed it before it had received message {}", connection_.name(),
                      connection_.received_by_peer() == Connection::kLost ? in_.next : connection_.received_by_peer())};
}

void Sender::stop() {
  stopped_ = true;
  connection_.stop();
  link::HostWire::close(in_);
}

}  // namespace tutti::transports::verbs
