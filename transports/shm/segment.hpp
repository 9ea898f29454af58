// Memory that processes of one host share without a name: a memfd, handed from process to process as a descriptor.
// Nothing has to be unlinked; the kernel takes it back when the last process that has it ends, however it ends.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"

namespace tutti::transports {

class Segment {
 public:
  /// Zeroed memory of this process, `bytes` rounded up to whole pages. All of it is allocated here and now, on the
  /// caller's NUMA node, so that touching it can never fail; its size is sealed.
  /// Throws Error(OutOfMemory) where the memory cannot be had, Error(SystemError) where memfds cannot.
  static Segment create(uint64_t bytes);

  enum class Access { Read, Write };
  /// Maps a segment of `whose` (for error texts, e.g. "rank 3") that came as a descriptor. `bytes` is what the peer
  /// says; a descriptor that could shrink, or that is not plain memory of at least this size, is not touched:
  /// Error(ProtocolError).
  static Segment map(Fd fd, uint64_t bytes, const std::string& whose, Access access = Access::Write);

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  /// Enters all pages into this process's tables now, at a third of what each costs when it is touched first, and so
  /// that no message waits for it. Where the kernel cannot (before Linux 5.14) they come as they are touched.
  void enter_pages() const;
  /// What peers map; −1 for a segment that is itself a peer's.
  int fd() const { return fd_.get(); }

 private:
  Segment(Fd fd, unsigned char* base, uint64_t bytes) : fd_(std::move(fd)), base_(base), bytes_(bytes) {}

  Fd fd_;
  unsigned char* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tutti::transports
