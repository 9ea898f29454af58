// The reading end of a link over streams: reads sockets and puts whole messages into a ring of this process, in order.
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
  link::InLink link() {
    return {.ring = ring_->ring,
            .consumed = &ring_->consumed,
            .peer = out_.peer,
            .addresses = true,
            .posted = posted_.get()};
  }

  /// The peer's next stream has arrived; it becomes non-blocking. Returns its descriptor.
  int attach(Fd stream);
  /// Streams that have arrived.
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  /// Streams that the peer has opened, as far as is known.
  uint32_t streams_expected() const { return streams_expected_; }
  Rank peer() const { return out_.peer; }
  uint32_t link_lane() const { return link_lane_; }

  /// Call it when the kernel reports bytes to read on a stream; `ending`: the stream ends after them.
  void wake(uint32_t stream, bool ending) {
    streams_[stream].readable = true;
    streams_[stream].ending = streams_[stream].ending || ending;
  }
  /// Would progress() try to do anything?
  bool busy();
  /// Receives until there is nothing more, or the ring is full: then the kernels' buffers fill up and stop the sender.
  /// `ask`: asks the kernel even where it has reported nothing.
  Status progress(bool& moved, bool ask = false);

 private:
  enum class Next : uint8_t { Bytes, Room, Part };

  struct Stream {
    Fd fd;
    uint32_t index = 0;
    bool readable = true;
    bool ending = false;
    bool over = false;                       // the peer has closed it between two messages
    bool held_back = false;                  // `header` waits for room in the ring
    bool in_part = false;                    // else the next bytes are a header
    FrameHeader header;                      // of the part that is under way or held back
    unsigned char* to = nullptr;             // where the rest of the part goes
    uint64_t left = 0;                       // bytes of it
    std::unique_ptr<unsigned char[]> bytes;  // received: headers, small messages, the beginnings of larger ones
    uint64_t parsed = 0, filled = 0;         // the bytes from parsed to filled are not parsed yet
    uint64_t buffered() const { return filled - parsed; }
  };

  /// A message of which some part has come.
  struct Incoming {
    FrameHeader header;
    uint32_t begun = 0;           // stripes, as bits
    uint32_t finished = 0;        // how many
    unsigned char* to = nullptr;  // null: in `small`
    Buffer buffer;                // unless it goes to the posted destination
    unsigned char small[link::kInlineBytes];
  };
  Incoming& incoming(uint64_t number) { return incoming_[number % link::kCapacity]; }

  bool has_room(const FrameHeader& header);
  Status progress(Stream& stream, bool& moved);
  Status take_part(Stream& stream, Next& next);
  Status begin_part(Stream& stream);
  Status begin_message(const FrameHeader& header);
  void take_small(Stream& stream);
  void publish_finished();
  void publish(Incoming& message);
  void reclaim();
  Status receive(Stream& stream, bool& moved);
  Status ended(Stream& stream, int error) const;
  Status garbage(const char* what, const FrameHeader& header) const;

  const uint32_t link_lane_;
  std::vector<Stream> streams_;
  uint32_t streams_expected_ = 1;

  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  std::unique_ptr<link::Posted[]> posted_ = std::make_unique<link::Posted[]>(link::kPostedAhead);
  link::OutLink out_;
  uint64_t next_ = 0;  // number of the message that the next header on the first stream begins
  Incoming incoming_[link::kCapacity];
  uint32_t under_way_ = 0;          // buffers in incoming_
  Buffer in_use_[link::kCapacity];  // of the message in each slot
  uint32_t held_ = 0;               // buffers in in_use_
  std::vector<Buffer> unused_;      // a stack: the last one is still in the cache
  uint64_t reclaimed_ = 0;          // messages whose buffers have been reclaimed
};

}  // namespace tutti::transports::tcp
