// The writing end of a link over a stream: moves messages from a ring of this process to a socket.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fd.hpp"
#include "base/status.hpp"
#include "link/host_memory.hpp"

namespace tutti::transports::tcp {

class Sender {
 public:
  /// `stream` is connected to `peer`; it becomes non-blocking.
  Sender(Fd stream, Rank peer, uint32_t link_lane);

  /// The link that the executor writes to. All longer messages are zero-copy: a payload is read in place, and consumed
  /// when its last byte is in the kernel.
  link::OutLink link() const { return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = in_.peer}; }
  int fd() const { return stream_.get(); }

  /// Call it when the kernel reports that the stream can take more.
  void wake() { writable_ = true; }
  /// Sends until there is nothing more, or the stream takes no more. Sets `moved` when bytes were sent.
  Status progress(bool& moved);
  /// Would progress() try to send anything?
  bool busy() const { return writable_ && waiting(); }
  /// Is there anything that is not in the kernel yet?
  bool waiting() const;
  /// Consumes all messages without sending them; nothing is sent any more.
  void stop();

 private:
  void advance(uint64_t bytes);
  Status broken(int error) const;

  const Fd stream_;
  const uint32_t link_lane_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink in_;
  uint64_t sent_ = 0;  // bytes of message in_.next, header included, that are in the kernel
  bool writable_ = true;
  bool stopped_ = false;
};

}  // namespace tutti::transports::tcp
