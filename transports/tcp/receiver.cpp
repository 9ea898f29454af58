#include "transports/tcp/receiver.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/format.hpp"

namespace tutti::transports::tcp {
namespace {

constexpr uint64_t kStage = 16384;  // bytes received per call while no large payload is under way

}  // namespace

Receiver::Receiver(Rank peer, uint32_t link_lane) : link_lane_(link_lane) {
  out_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = peer};
}

int Receiver::attach(Fd fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  Stream& stream = streams_.emplace_back();
  stream.fd = std::move(fd);
  stream.index = streams() - 1;
  stream.bytes.reset(new unsigned char[kStage]);
  return stream.fd.get();
}

bool Receiver::busy() {
  return std::any_of(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    return stream.held_back ? has_room(stream.header) : stream.readable && !stream.over;
  });
}

Status Receiver::progress(bool& moved, bool ask) {
  for (Stream& stream : streams_) {
    if (ask) stream.readable = true;
    if (Status status = progress(stream, moved); !status.ok()) return status;
  }
  return {};
}

Status Receiver::progress(Stream& stream, bool& moved) {
  while (true) {
    Next next = Next::Part;
    while (next == Next::Part) {
      if (Status status = take_part(stream, next); !status.ok()) return status;
      moved = moved || next == Next::Part;
    }
    stream.held_back = next == Next::Room;
    if (stream.held_back || !stream.readable || stream.over) return {};
    if (Status status = receive(stream, moved); !status.ok()) return status;
  }
}

/// Is there room for this message? The oldest one that is not published yet gets room as soon as the executor has
/// consumed one, whatever other streams have begun.
bool Receiver::has_room(const FrameHeader& header) {
  reclaim();
  if (header.number - out_.acked >= link::kCapacity) return false;
  if (header.length <= link::kInlineBytes || incoming(header.number).begun != 0) return true;
  return held_ + (header.number == out_.next ? 0 : under_way_) < link::kSlots;
}

/// Takes the next header, or the end of a part. `next`: what comes after it needs.
Status Receiver::take_part(Stream& stream, Next& next) {
  next = Next::Bytes;
  if (!stream.in_part) {
    if (stream.buffered() < kHeaderBytes) return {};
    FrameHeader& header = stream.header;
    const uint64_t number = stream.index == 0 ? next_ : out_.next;
    const unsigned char* const at = stream.bytes.get() + stream.parsed;
    if (const char* what = read_header(at, number, stream.index, header)) return garbage(what, header);
    if (!has_room(header)) {
      next = Next::Room;
      return {};
    }
    const bool small = header.length <= link::kInlineBytes;
    if (small && stream.buffered() < kHeaderBytes + header.length) return {};
    stream.parsed += kHeaderBytes;
    if (stream.index == 0) ++next_;
    if (Status status = begin_part(stream); !status.ok()) return status;
    if (small) take_small(stream);
  }
  if (stream.left > 0) return {};
  stream.in_part = false;
  ++incoming(stream.header.number).finished;
  publish_finished();
  next = Next::Part;
  return {};
}

/// Finds the place of a part whose header has come, and copies what came with the header.
Status Receiver::begin_part(Stream& stream) {
  const FrameHeader& header = stream.header;
  Incoming& message = incoming(header.number);
  if (message.begun == 0) {
    if (Status status = begin_message(header); !status.ok()) return status;
  } else if (message.header.tag != header.tag || message.header.length != header.length ||
             message.header.parts != header.parts) {
    return garbage("its stripes differ", header);
  } else if ((message.begun >> header.part & 1) != 0) {
    return garbage("a stripe came twice", header);
  }
  message.begun |= 1U << header.part;
  streams_expected_ = std::max(streams_expected_, header.parts);
  stream.in_part = true;
  if (message.to == nullptr) return {};
  const Stripe stripe = stripe_of(header.length, header.part, header.parts);
  const uint64_t here = std::min(stream.buffered(), stripe.bytes);
  std::memcpy(message.to + stripe.begin, stream.bytes.get() + stream.parsed, here);
  stream.parsed += here;
  stream.to = message.to + stripe.begin + here;
  stream.left = stripe.bytes - here;
  return {};
}

/// Finds memory for a payload: where the executor waits for it, or a buffer.
Status Receiver::begin_message(const FrameHeader& header) {
  Incoming& message = incoming(header.number);
  message.header = header;
  message.finished = 0;
  message.to = nullptr;
  if (header.length <= link::kInlineBytes) return {};
  message.to = link::HostWire::posted(posted_.get(), header.number, header.tag, header.length);
  if (message.to != nullptr) return {};
  if (!unused_.empty()) {
    message.buffer = std::move(unused_.back());
    unused_.pop_back();
  }
  if (message.buffer.size < header.length) {
    message.buffer.bytes.reset();
    message.buffer.bytes.reset(new (std::nothrow) unsigned char[header.length]);
    message.buffer.size = message.buffer.bytes ? header.length : 0;
    if (!message.buffer.bytes) {
      return {Code::OutOfMemory,
              fmt::format("tcp: no memory for a message of {} bytes from rank {}", header.length, peer())};
    }
  }
  message.to = message.buffer.bytes.get();
  ++under_way_;
  return {};
}

/// The whole message has come with its header.
void Receiver::take_small(Stream& stream) {
  const uint64_t length = stream.header.length;
  std::memcpy(incoming(stream.header.number).small, stream.bytes.get() + stream.parsed, length);
  stream.parsed += length;
  stream.left = 0;
}

/// Publishes, in order, the messages of which all parts have come.
void Receiver::publish_finished() {
  while (true) {
    Incoming& message = incoming(out_.next);
    if (message.begun == 0 || message.finished < message.header.parts) return;
    publish(message);
    message.begun = 0;
  }
}

void Receiver::publish(Incoming& message) {
  const FrameHeader& header = message.header;
  if (message.to == nullptr) return link::HostWire::publish_inline(out_, header.tag, message.small, header.length);
  if (message.buffer.bytes) --under_way_, ++held_;
  in_use_[out_.next % link::kCapacity] = std::exchange(message.buffer, {});
  link::HostWire::publish_staged(out_, header.tag, message.to, header.length);
}

/// Takes back the buffers of messages that the executor has consumed.
void Receiver::reclaim() {
  link::HostWire::refresh(out_);
  for (; reclaimed_ < out_.acked; ++reclaimed_) {
    Buffer& buffer = in_use_[reclaimed_ % link::kCapacity];
    if (buffer.bytes) unused_.push_back(std::move(buffer)), --held_;
    buffer = {};
  }
}

/// One system call: the rest of the part under way, and what comes after it.
Status Receiver::receive(Stream& stream, bool& moved) {
  std::memmove(stream.bytes.get(), stream.bytes.get() + stream.parsed, stream.buffered());  // less than a small message
  stream.filled -= std::exchange(stream.parsed, 0);
  const uint64_t rest = stream.in_part ? stream.left : 0;
  iovec parts[2] = {{stream.to, rest}, {stream.bytes.get() + stream.filled, kStage - stream.filled}};
  msghdr message{};
  message.msg_iov = rest > 0 ? parts : parts + 1;
  message.msg_iovlen = rest > 0 ? 2 : 1;
  const ssize_t got = ::recvmsg(stream.fd.get(), &message, MSG_DONTWAIT);
  if (got < 0 && errno == EINTR) return {};
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    stream.readable = false;
    return {};
  }
  if (got <= 0) return ended(stream, got == 0 ? 0 : errno);
  const uint64_t into_part = std::min(rest, static_cast<uint64_t>(got));
  stream.left -= into_part;
  stream.to += into_part;
  stream.filled += static_cast<uint64_t>(got) - into_part;
  moved = true;
  // A short read has emptied the stream, and an event reports the next bytes. The event of the stream's end may have
  // come already.
  if (static_cast<uint64_t>(got) < rest + parts[1].iov_len && !stream.ending) stream.readable = false;
  return {};
}

/// A stream that ends between two messages ends properly. Others find out whether its writer still lives.
Status Receiver::ended(Stream& stream, int error) const {
  if (error == 0 && !stream.in_part && stream.buffered() == 0) {
    stream.over = true;
    return {};
  }
  return {Code::PeerFailed,
          fmt::format("tcp: the connection from rank {} (link lane {}) broke in message {}: {}", peer(), link_lane_,
                      out_.next, error == 0 ? "it ended in the middle" : std::strerror(error))};
}

Status Receiver::garbage(const char* what, const FrameHeader& header) const {
  return {Code::ProtocolError,
          fmt::format("tcp: message {} from rank {} (link lane {}) is invalid: {} (number {}, tag {:#x}, {} bytes)",
                      out_.next, peer(), link_lane_, what, header.number, header.tag, header.length)};
}

}  // namespace tutti::transports::tcp
