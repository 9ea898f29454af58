// The writing end of a link: sends messages from a ring of this process.
#pragma once

#include <array>
#include <memory>

#include "link/host_memory.hpp"
#include "transports/ucx/fabric.hpp"
#include "transports/ucx/stream.hpp"

namespace tutti::transports::ucx {

class Sender {
 public:
  Sender(Fabric& fabric, const Stream::Who& who);

  link::OutLink link() const { return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = in_.peer}; }
  Stream& stream() { return stream_; }
  const Stream& stream() const { return stream_; }

  /// Gives messages to UCX until there is none left, or the reader has no room. Never waits.
  Status progress(bool& moved);
  /// A count that is less than before, or more than was sent, is not believed.
  void take(const Credit& credit);
  /// Is there a message that UCX has not taken, or whose memory it still reads?
  bool waiting() const;
  /// Would progress() send something?
  bool busy() const { return stream_.ready() && !stopped_ && next() - credit_ < kSlots && has_more(); }
  /// Consumes all messages; nothing is sent any more.
  void stop();

 private:
  struct Sent {
    Message header{};
    Operation operation;
  };

  uint64_t next() const { return in_.next + ahead_; }  // number of the next message to send
  bool has_more() const;
  Status consume();
  Status check_closed();

  Fabric& fabric_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink in_;
  uint64_t ahead_ = 0;   // messages that are sent and not consumed
  uint64_t credit_ = 0;  // messages that the reader has consumed
  bool stopped_ = false;
  std::array<Sent, kSlots> sent_;
  Stream stream_;
};

}  // namespace tutti::transports::ucx
