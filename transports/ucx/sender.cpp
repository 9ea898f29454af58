#include "transports/ucx/sender.hpp"

#include "base/format.hpp"

namespace tutti::transports::ucx {

Sender::Sender(Fabric& fabric, const Stream::Who& who) : fabric_(fabric), stream_(who) {
  in_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = who.peer, .addresses = true};
}

bool Sender::has_more() const {
  link::Header header{};
  link::Arrival arrival;
  return ahead_ < link::kCapacity && link::HostWire::poll(in_, header, arrival, ahead_) != link::Poll::Empty;
}

bool Sender::waiting() const { return !stopped_ && (ahead_ > 0 || has_more()); }

Status Sender::progress(bool& moved) {
  if (stopped_ || !stream_.ready()) return {};
  if (Status status = consume(); !status.ok()) return status;
  if (stream_.closed()) return check_closed();
  link::Header header{};
  link::Arrival arrival;
  while (ahead_ < link::kCapacity && next() - credit_ < kSlots) {
    const link::Poll poll = link::HostWire::poll(in_, header, arrival, ahead_);
    if (poll == link::Poll::Empty) return {};
    if (poll == link::Poll::Bad || header.length > kMaxMessage) {
      return {Code::InternalError,
              fmt::format("{}: message {}, {} bytes, cannot be sent", stream_.name(), next(), header.length)};
    }
    Sent& sent = sent_[next() % kSlots];
    sent.header = {stream_.peer().token, next(), header.tag, header.length, stream_.peer().end};
    fabric_.send(in_.peer, kMessageId, {&sent.header, sizeof sent.header}, {arrival.data, header.length},
                 header.length > kEager, sent.operation);
    ++ahead_;
    moved = true;
    if (Status status = consume(); !status.ok()) return status;
  }
  return {};
}

/// Consumes the messages whose memory UCX needs no more.
Status Sender::consume() {
  link::Header header{};
  link::Arrival arrival;
  for (; ahead_ > 0; --ahead_) {
    const Operation& operation = sent_[in_.next % kSlots].operation;
    if (operation.under_way()) return {};
    if (operation.failed()) return stream_.lost(operation.text);
    if (link::HostWire::poll(in_, header, arrival) != link::Poll::Ready) return {};
    link::HostWire::consume(in_, arrival);
  }
  return {};
}

void Sender::take(const Credit& credit) {
  if (credit.consumed > credit_ && credit.consumed <= next()) credit_ = credit.consumed;
}

/// The peer has closed the link: is anything lost?
Status Sender::check_closed() {
  const uint64_t received = stream_.received_by_peer();
  if (!has_more() && received != Stream::kLost && received >= next()) return {};
  return {Code::PeerFailed, fmt::format("{}: the peer closed it before it had received message {}", stream_.name(),
                                        received == Stream::kLost ? credit_ : received)};
}

void Sender::stop() {
  stopped_ = true;
  link::HostWire::close(in_);
}

}  // namespace tutti::transports::ucx
