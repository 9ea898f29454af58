#include "transports/tcp/sender.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "topo/constants.hpp"
#include "transports/tcp/frame.hpp"

namespace tutti::transports::tcp {

/// What one system call sends: this stream's parts of the messages in the ring, without the bytes sent before.
struct Sender::Batch {
  struct Part {
    uint64_t message;
    uint64_t bytes;  // with the header
  };
  unsigned char headers[link::kCapacity][kHeaderBytes];
  iovec pieces[2 * link::kCapacity];
  size_t piece_count = 0;
  Part parts[link::kCapacity];
  size_t count = 0;
  uint64_t bytes = 0;
  uint64_t skip = 0;  // bytes sent before

  void add(const FrameHeader& header, const unsigned char* data) {
    const Stripe stripe = stripe_of(header.length, header.part, header.parts);
    write_header(headers[count], header);
    parts[count] = {header.number, kHeaderBytes + stripe.bytes};
    add(headers[count], kHeaderBytes);
    add(data + stripe.begin, stripe.bytes);
    ++count;
  }

 private:
  void add(const unsigned char* data, uint64_t length) {
    const uint64_t skipped = std::min(skip, length);
    skip -= skipped;
    if (length == skipped) return;
    pieces[piece_count++] = {const_cast<unsigned char*>(data) + skipped, length - skipped};
    bytes += length - skipped;
  }
};

Sender::Sender(std::vector<Fd> streams, Rank peer, uint32_t link_lane) : link_lane_(link_lane) {
  for (Fd& fd : streams) {
    ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    streams_.emplace_back().fd = std::move(fd);
  }
  in_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = peer, .addresses = true};
}

bool Sender::waiting() const {
  if (stopped_) return false;
  link::Header header{};
  link::Arrival arrival;
  return link::HostWire::poll(in_, header, arrival) != link::Poll::Empty;
}

bool Sender::has_more(const Stream& stream) const {
  link::Header header{};
  link::Arrival arrival;
  return link::HostWire::poll(in_, header, arrival, stream.message - in_.next) != link::Poll::Empty;
}

bool Sender::busy() const {
  return !stopped_ && std::any_of(streams_.begin(), streams_.end(),
                                  [this](const Stream& stream) { return stream.writable && has_more(stream); });
}

bool Sender::blocked() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return !stream.writable; });
}

/// How many streams share a message of so many bytes.
uint32_t Sender::parts_of(uint64_t length) const {
  return streams() == 1 || length < std::max(kShortestStriped, machine_constants().tcp_striped_from) ? 1 : streams();
}

Status Sender::progress(bool& moved) {
  if (stopped_) return {};
  for (uint32_t i = 0; i < streams(); ++i) {
    if (!streams_[i].writable) continue;
    if (Status status = progress(i, moved); !status.ok()) return status;
  }
  consume_sent();
  return {};
}

Status Sender::progress(uint32_t index, bool& moved) {
  Stream& stream = streams_[index];
  while (true) {
    skip_short(index);
    if (!has_more(stream)) return {};
    Batch batch;
    if (Status status = gather(index, batch); !status.ok()) return status;
    msghdr message{};
    message.msg_iov = batch.pieces;
    message.msg_iovlen = batch.piece_count;
    const ssize_t bytes = ::sendmsg(stream.fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      stream.writable = false;
      return {};
    }
    if (bytes < 0) return broken(errno);
    moved = true;
    // A short write has filled the kernel's buffer, but only EAGAIN guarantees an event, so the loop tries again.
    stream.sent += static_cast<uint64_t>(bytes);
    for (size_t i = 0; i < batch.count && stream.sent >= batch.parts[i].bytes; ++i) {
      stream.sent -= batch.parts[i].bytes;
      stream.message = batch.parts[i].message + 1;
    }
  }
}

/// Collects this stream's parts of the messages in the ring.
Status Sender::gather(uint32_t index, Batch& batch) {
  const Stream& stream = streams_[index];
  batch.skip = stream.sent;
  link::Header header{};
  link::Arrival arrival;
  for (uint64_t number = stream.message; number < in_.next + link::kCapacity; ++number) {
    const link::Poll poll = link::HostWire::poll(in_, header, arrival, number - in_.next);
    if (poll == link::Poll::Empty) break;
    if (poll == link::Poll::Bad || header.length > kMaxMessage) {
      return {Code::InternalError, fmt::format("tcp: message {} to rank {} on link lane {}, {} bytes, cannot be sent",
                                               number, in_.peer, link_lane_, header.length)};
    }
    const uint32_t parts = parts_of(header.length);
    if (index < parts) batch.add({number, header.tag, header.length, index, parts}, arrival.data);
  }
  return {};
}

/// Passes the messages of which this stream has no part.
void Sender::skip_short(uint32_t index) {
  Stream& stream = streams_[index];
  if (index == 0 || stream.sent > 0) return;
  link::Header header{};
  link::Arrival arrival;
  while (stream.message < in_.next + link::kCapacity &&
         link::HostWire::poll(in_, header, arrival, stream.message - in_.next) == link::Poll::Ready &&
         parts_of(header.length) <= index) {
    ++stream.message;
  }
}

/// Consumes the messages of which all parts are in the kernel.
void Sender::consume_sent() {
  uint64_t sent = streams_[0].message;
  for (const Stream& stream : streams_) sent = std::min(sent, stream.message);
  link::Header header{};
  link::Arrival arrival;
  while (in_.next < sent && link::HostWire::poll(in_, header, arrival) == link::Poll::Ready) {
    link::HostWire::consume(in_, arrival);
  }
}

void Sender::stop() {
  stopped_ = true;
  link::HostWire::close(in_);
}

Status Sender::broken(int error) const {
  return {Code::PeerFailed, fmt::format("tcp: the connection to rank {} (link lane {}) broke at message {}: {}",
                                        in_.peer, link_lane_, in_.next, std::strerror(error))};
}

}  // namespace tutti::transports::tcp
