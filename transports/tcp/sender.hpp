// The writing end of a link over streams: moves messages from a ring of this process to sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "base/status.hpp"
#include "link/host_memory.hpp"

namespace tutti::transports::tcp {

class Sender {
 public:
  /// The streams are connected to `peer`; they become non-blocking.
  Sender(std::vector<Fd> streams, Rank peer, uint32_t link_lane);

  /// The link that the executor writes to. All longer messages are zero-copy: a payload is read in place, and consumed
  /// when its last byte is in the kernel.
  link::OutLink link() const { return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = in_.peer}; }
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  int fd(uint32_t stream) const { return streams_[stream].fd.get(); }

  /// Call it when the kernel reports that the stream can take more.
  void wake(uint32_t stream) { streams_[stream].writable = true; }
  /// Sends until there is nothing more, or the streams take no more. Sets `moved` when bytes were sent.
  Status progress(bool& moved);
  /// Would progress() try to send anything?
  bool busy() const;
  /// Does a stream that takes no more have something to send?
  bool blocked() const;
  /// Is there anything that is not in the kernel yet?
  bool waiting() const;
  /// Consumes all messages without sending them; nothing is sent any more.
  void stop();

 private:
  struct Stream {
    Fd fd;
    bool writable = true;
    uint64_t message = 0;  // of those before it, this stream's parts are in the kernel
    uint64_t sent = 0;     // bytes of its part of `message`, header included, that are in the kernel
  };
  struct Batch;

  Status progress(uint32_t index, bool& moved);
  Status gather(uint32_t index, Batch& batch);
  void skip_short(uint32_t index);
  uint32_t parts_of(uint64_t length) const;
  bool has_more(const Stream& stream) const;
  void consume_sent();
  Status broken(int error) const;

  const uint32_t link_lane_;
  std::vector<Stream> streams_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink in_;
  bool stopped_ = false;
};

}  // namespace tutti::transports::tcp
