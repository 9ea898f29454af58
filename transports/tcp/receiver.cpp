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

Receiver::Receiver(Rank peer, uint32_t link_lane) : link_lane_(link_lane), bytes_(new unsigned char[kStage]) {
  out_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = peer};
}

void Receiver::attach(Fd stream) {
  stream_ = std::move(stream);
  ::fcntl(stream_.get(), F_SETFL, ::fcntl(stream_.get(), F_GETFL) | O_NONBLOCK);
}

Status Receiver::progress(bool& moved) {
  while (true) {
    Next next = Next::Message;
    while (next == Next::Message) {
      if (Status status = take_message(next); !status.ok()) return status;
      moved = moved || next == Next::Message;
    }
    held_back_ = next == Next::Room;
    if (held_back_ || !readable_ || over_) return {};
    if (Status status = receive(moved); !status.ok()) return status;
  }
}

/// Is there room for one more message of any length?
bool Receiver::has_room() {
  reclaim();
  return link::HostWire::can_publish(out_) && held_ < link::kSlots;
}

/// Publishes one message if it is complete. `next`: what the next one needs.
Status Receiver::take_message(Next& next) {
  next = Next::Bytes;
  if (!in_payload_) {
    if (buffered() < kHeaderBytes) return {};
    if (!has_room()) {
      next = Next::Room;
      return {};
    }
    const unsigned char* const at = bytes_.get() + parsed_;
    if (const char* what = read_header(at, out_.next, header_)) return garbage(what, header_);
    if (header_.length <= link::kInlineBytes) {
      if (buffered() < kHeaderBytes + header_.length) return {};
      link::HostWire::publish_inline(out_, header_.tag, at + kHeaderBytes, header_.length);
      parsed_ += kHeaderBytes + header_.length;
      next = Next::Message;
      return {};
    }
    parsed_ += kHeaderBytes;
    if (Status status = begin_payload(header_); !status.ok()) return status;
  }
  if (received_ < header_.length) return {};
  publish(header_.tag);
  next = Next::Message;
  return {};
}

/// Gets memory for a payload, and copies the part of it that came with the header.
Status Receiver::begin_payload(const FrameHeader& header) {
  if (!unused_.empty()) {
    payload_ = std::move(unused_.back());
    unused_.pop_back();
  }
  if (payload_.size < header.length) {
    payload_.bytes.reset();
    payload_.bytes.reset(new (std::nothrow) unsigned char[header.length]);
    payload_.size = payload_.bytes ? header.length : 0;
    if (!payload_.bytes) {
      return {Code::OutOfMemory,
              fmt::format("tcp: no memory for a message of {} bytes from rank {}", header.length, peer())};
    }
  }
  received_ = std::min(buffered(), header.length);
  std::memcpy(payload_.bytes.get(), bytes_.get() + parsed_, received_);
  parsed_ += received_;
  in_payload_ = true;
  return {};
}

void Receiver::publish(uint64_t tag) {
  Buffer& buffer = in_use_[out_.next % link::kCapacity];
  buffer = std::move(payload_);
  payload_ = {};
  in_payload_ = false;
  link::HostWire::publish_staged(out_, tag, buffer.bytes.get(), header_.length);
  ++held_;
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

/// One system call: the rest of the payload under way, and what comes after it.
Status Receiver::receive(bool& moved) {
  std::memmove(bytes_.get(), bytes_.get() + parsed_, buffered());  // less than a header and an inline payload
  filled_ -= std::exchange(parsed_, 0);
  const uint64_t rest = in_payload_ ? header_.length - received_ : 0;
  iovec parts[2] = {{in_payload_ ? payload_.bytes.get() + received_ : nullptr, rest},
                    {bytes_.get() + filled_, kStage - filled_}};
  msghdr message{};
  message.msg_iov = in_payload_ ? parts : parts + 1;
  message.msg_iovlen = in_payload_ ? 2 : 1;
  const ssize_t got = ::recvmsg(stream_.get(), &message, MSG_DONTWAIT);
  if (got < 0 && errno == EINTR) return {};
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    readable_ = false;
    return {};
  }
  if (got <= 0) return ended(got == 0 ? 0 : errno);
  const uint64_t into_payload = std::min(rest, static_cast<uint64_t>(got));
  received_ += into_payload;
  filled_ += static_cast<uint64_t>(got) - into_payload;
  moved = true;
  // A short read has emptied the stream, and an event reports the next bytes. The event of the stream's end may have
  // come already.
  if (static_cast<uint64_t>(got) < rest + parts[1].iov_len && !ending_) readable_ = false;
  return {};
}

/// A stream that ends between two messages ends properly. Others find out whether its writer still lives.
Status Receiver::ended(int error) {
  if (error == 0 && !in_payload_ && buffered() == 0) {
    over_ = true;
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
