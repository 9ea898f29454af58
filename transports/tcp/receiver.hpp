// The reading end of a link over a stream: reads a socket and puts whole messages into a ring of this process.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "base/status.hpp"
#include "link/host_memory.hpp"
#include "transports/tcp/frame.hpp"

namespace tutti::transports::tcp {

/// Memory for one payload; grows, and is reused.
struct Buffer {
  std::unique_ptr<unsigned char[]> bytes;
  uint64_t size = 0;
};

class Receiver {
 public:
  Receiver(Rank peer, uint32_t link_lane);

  /// The link that the executor reads from.
  link::InLink link() const {
    return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = out_.peer, .addresses = true};
  }

  /// The peer's stream has arrived; it becomes non-blocking.
  void attach(Fd stream);
  bool attached() const { return static_cast<bool>(stream_); }
  int fd() const { return stream_.get(); }
  Rank peer() const { return out_.peer; }
  uint32_t link_lane() const { return link_lane_; }

  /// Call it when the kernel reports bytes to read; `ending`: the stream ends after them.
  void wake(bool ending) {
    readable_ = true;
    ending_ = ending_ || ending;
  }
  /// Would progress() try to do anything?
  bool busy() { return attached() && (held_back_ || (readable_ && !over_)) && has_room(); }
  /// Receives until there is nothing more, or the ring is full: then the kernels' buffers fill up and stop the sender.
  Status progress(bool& moved);

 private:
  enum class Next : uint8_t { Bytes, Room, Message };

  bool has_room();
  Status take_message(Next& next);
  Status receive(bool& moved);
  Status begin_payload(const FrameHeader& header);
  void publish(uint64_t tag);
  void reclaim();
  Status ended(int error);
  Status garbage(const char* what, const FrameHeader& header) const;
  uint64_t buffered() const { return filled_ - parsed_; }

  const uint32_t link_lane_;
  Fd stream_;
  bool readable_ = true;
  bool ending_ = false;
  bool over_ = false;  // the peer has closed the stream between two messages

  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::OutLink out_;
  Buffer in_use_[link::kCapacity];  // of the message in each slot
  uint32_t held_ = 0;               // buffers in in_use_
  std::vector<Buffer> unused_;      // a stack: the last one is still in the cache
  uint64_t reclaimed_ = 0;          // messages whose buffers have been reclaimed

  std::unique_ptr<unsigned char[]> bytes_;  // received bytes: headers, small messages, the beginnings of larger ones
  uint64_t parsed_ = 0, filled_ = 0;        // the bytes from parsed_ to filled_ are not parsed yet

  bool held_back_ = false;   // received messages wait for room in the ring
  bool in_payload_ = false;  // else the next bytes are a header
  FrameHeader header_{};
  Buffer payload_;
  uint64_t received_ = 0;  // bytes of the payload that are in payload_
};

}  // namespace tutti::transports::tcp
