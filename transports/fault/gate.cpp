#include "transports/fault/gate.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

namespace tutti::transports {
namespace {

Gate::Clock::duration ticks(double seconds) {
  return std::chrono::duration_cast<Gate::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Gate::Gate(const link::OutLink& inner, const FaultPlan& plan, uint64_t link_seed)
    : plan_(plan), inner_(inner), times_(link_seed), corruptions_(~link_seed) {
  in_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = inner.peer, .addresses = true};
}

bool Gate::progress(Clock::time_point now) {
  if (stopped_) return false;
  bool moved = schedule(now);
  while (inner_.next < scheduled_ && inner_.next < plan_.stall && due_[inner_.next % link::kCapacity] <= now &&
         link::HostWire::can_publish(inner_) && link::HostWire::can_push(inner_)) {
    link::Header header{};
    link::Arrival arrival;
    link::HostWire::poll(in_, header, arrival, inner_.next - in_.next);
    if (inner_.next == plan_.kill) ::raise(SIGKILL);
    if (inner_.next == plan_.corrupt) {
      send_corrupted(header, arrival);
    } else {
      send(header, arrival.data);
    }
    moved = true;
  }
  return release_consumed() || moved;
}

/// Sets the due time of every new message: it enters the link when the one before has left it.
bool Gate::schedule(Clock::time_point now) {
  bool any = false;
  link::Header header{};
  link::Arrival arrival;
  for (; link::HostWire::poll(in_, header, arrival, scheduled_ - in_.next) == link::Poll::Ready; ++scheduled_) {
    const double chance = static_cast<double>(times_() >> 11) * 0x1p-53;  // uniform in [0, 1)
    const double passing = plan_.rate > 0 ? static_cast<double>(header.length) / plan_.rate : 0;
    free_ = std::max(free_, now) + ticks(plan_.delay + passing);
    due_[scheduled_ % link::kCapacity] = free_ + ticks(plan_.latency + plan_.jitter * chance);
    any = true;
  }
  return any;
}

/// Consumes the executor's messages that the reader has consumed.
bool Gate::release_consumed() {
  if (in_.next == inner_.next) return false;
  link::HostWire::refresh(inner_);
  const bool any = in_.next < inner_.acked;
  while (in_.next < inner_.acked) link::HostWire::consume(in_, {.data = nullptr});
  return any;
}

void Gate::send(const link::Header& header, const unsigned char* data) {
  if (header.where == link::Where::Inline) {
    link::HostWire::publish_inline(inner_, header.tag, data, header.length);
  } else if (inner_.push_bytes > 0) {
    std::memcpy(link::push_slot(inner_), data, header.length);
    link::HostWire::publish_pushed(inner_, header.tag, header.length);
  } else {
    link::HostWire::publish_staged(inner_, header.tag, data, header.length);
  }
}

void Gate::send_corrupted(link::Header header, const link::Arrival& arrival) {
  switch (plan_.what) {
    case FaultPlan::Corrupt::Payload:
      return send(header, corrupt_payload(header, arrival));
    case FaultPlan::Corrupt::Tag:
      header.tag ^= uint64_t{1} << corruptions_() % 48;
      return send(header, arrival.data);
    case FaultPlan::Corrupt::Length:
      header.length = header.length == 0 ? 1 : header.length / 2;
      return send(header, arrival.data);
    case FaultPlan::Corrupt::Header: {
      link::Descriptor* const to = link::slot(inner_.ring, inner_.next);
      to->tag = header.tag << 16 | 0xffff;  // no Where has this number
      to->length = header.length;
      link::HostMemory::store_release(&to->sequence, ++inner_.next);
    }
  }
}

/// The payload with one bit flipped. It is a copy, except when it must lie in the arena: then the staged payload is
/// corrupted in place, for all peers that it was published to.
unsigned char* Gate::corrupt_payload(const link::Header& header, const link::Arrival& arrival) {
  auto* data = const_cast<unsigned char*>(arrival.data);
  if (inner_.arena == nullptr || inner_.push_bytes > 0 || arrival.where == link::Where::Inline) {
    corrupted_.assign(arrival.data, arrival.data + header.length);
    data = corrupted_.data();
  }
  if (header.length != 0) {
    const uint64_t bit = corruptions_() % (8 * header.length);
    data[bit / 8] = static_cast<unsigned char>(data[bit / 8] ^ 1U << bit % 8);
  }
  return data;
}

bool Gate::waiting() const {
  if (stopped_) return false;
  link::Header header{};
  link::Arrival arrival;
  return link::HostWire::poll(in_, header, arrival, inner_.next - in_.next) != link::Poll::Empty;
}

std::optional<Gate::Clock::time_point> Gate::due() const {
  if (stopped_ || inner_.next == scheduled_ || inner_.next >= plan_.stall) return std::nullopt;
  return due_[inner_.next % link::kCapacity];
}

void Gate::stop() {
  stopped_ = true;
  if (inner_.host != nullptr && inner_.arena == nullptr) {  // a thread may be reading zero-copy messages
    link::HostWire::refresh(inner_);
    link::HostRevokeWire::revoke(inner_);
    while (link::HostRevokeWire::being_read(inner_)) std::this_thread::yield();
  }
  link::HostWire::close(in_);
}

}  // namespace tutti::transports
