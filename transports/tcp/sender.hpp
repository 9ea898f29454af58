// The writing end of a link over a stream: takes messages from a ring of this process and puts them on a socket.
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

  /// What the executor writes to. Payloads are read from where they are, and consumed with their last byte in the
  /// kernel: all memory is lent.
  link::OutLink link() const { return {.memory = ring_.get(), .peer = in_.peer, .zcopy_threshold = link::kZcopyFrom}; }
  int fd() const { return stream_.get(); }

  /// The kernel says that the stream may take more.
  void wake() { writable_ = true; }
  /// Sends until there is nothing more, or the stream takes no more. `moved` becomes true when bytes went out.
  Status progress(bool& moved);
  /// Is there anything that progress() would try to send?
  bool busy() const { return writable_ && waiting(); }
  /// Is there anything that has not gone to the kernel yet?
  bool waiting() const;
  /// Lets go of the memory of all messages; nothing is sent any more.
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
