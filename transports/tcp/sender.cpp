#include "transports/tcp/sender.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "transports/tcp/frame.hpp"

namespace tutti::transports::tcp {
namespace {

/// What one system call sends: the header and payload of every message in the ring, without the bytes sent before.
struct Batch {
  unsigned char headers[link::kCapacity][kHeaderBytes];
  iovec parts[2 * link::kCapacity];
  size_t count = 0;

  void add(const unsigned char* data, uint64_t length, uint64_t& skip) {
    const uint64_t skipped = std::min(skip, length);
    skip -= skipped;
    if (length > skipped) parts[count++] = {const_cast<unsigned char*>(data) + skipped, length - skipped};
  }
};

}  // namespace

Sender::Sender(Fd stream, Rank peer, uint32_t link_lane) : stream_(std::move(stream)), link_lane_(link_lane) {
  ::fcntl(stream_.get(), F_SETFL, ::fcntl(stream_.get(), F_GETFL) | O_NONBLOCK);
  in_ = {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = peer, .addresses = true};
}

bool Sender::waiting() const {
  if (stopped_) return false;
  link::Header header{};
  link::Arrival arrival;
  return link::HostWire::poll(in_, header, arrival) != link::Poll::Empty;
}

Status Sender::progress(bool& moved) {
  while (busy()) {
    Batch batch;
    uint64_t skip = sent_;
    link::Header header{};
    link::Arrival arrival;
    for (uint64_t ahead = 0; ahead < link::kCapacity; ++ahead) {
      const link::Poll poll = link::HostWire::poll(in_, header, arrival, ahead);
      if (poll == link::Poll::Empty) break;
      if (poll == link::Poll::Bad || header.length > kMaxMessage) {
        return {Code::InternalError, fmt::format("tcp: message {} to rank {} on link lane {}, {} bytes, cannot be sent",
                                                 in_.next + ahead, in_.peer, link_lane_, header.length)};
      }
      write_header(batch.headers[ahead], {in_.next + ahead, header.tag, header.length});
      batch.add(batch.headers[ahead], kHeaderBytes, skip);
      batch.add(arrival.data, header.length, skip);
    }
    msghdr message{};
    message.msg_iov = batch.parts;
    message.msg_iovlen = batch.count;
    const ssize_t bytes = ::sendmsg(stream_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      writable_ = false;
      return {};
    }
    if (bytes < 0) return broken(errno);
    moved = true;
    // A short write has filled the kernel's buffer, but only EAGAIN guarantees an event, so the loop tries again.
    advance(sent_ + static_cast<uint64_t>(bytes));
  }
  return {};
}

/// Consumes the messages that are completely sent: of those from in_.next on, `bytes` bytes are in the kernel.
void Sender::advance(uint64_t bytes) {
  link::Header header{};
  link::Arrival arrival;
  while (link::HostWire::poll(in_, header, arrival) == link::Poll::Ready && bytes >= kHeaderBytes + header.length) {
    bytes -= kHeaderBytes + header.length;
    link::HostWire::consume(in_, arrival);
  }
  sent_ = bytes;
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
