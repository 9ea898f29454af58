// Memory that processes of one host share without a name: a memfd, passed between processes as a descriptor. Nothing
// has to be unlinked; the kernel frees it when the last process that has it ends, however it ends.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"
#include "base/limits.hpp"

namespace tutti::transports {

class Segment {
 public:
  /// Zeroed memory of this process, `bytes` rounded up to whole pages; the size is sealed. All pages are allocated
  /// now, on the caller's NUMA node, so that touching them cannot fail; or later by commit(), before their use.
  /// Throws Error(OutOfMemory) if there is too little memory, Error(SystemError) if the system refuses a memfd.
  static Segment create(uint64_t bytes, Pages pages = Pages::Now);
  /// Allocates these bytes, whole pages, of a segment of this process, and enters them into its page tables. Any
  /// thread. Throws Error(OutOfMemory).
  void commit(uint64_t offset, uint64_t bytes) const;

  enum class Access { Read, Write };
  /// Maps a segment of `whose` (for error texts, e.g. "rank 3") that came as a descriptor. `bytes` is the size that the
  /// peer states. Throws Error(ProtocolError) for a descriptor that could shrink, or is not plain memory of this size.
  static Segment map(Fd fd, uint64_t bytes, const std::string& whose, Access access = Access::Write);

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  /// Enters the pages of these bytes into this process's page tables now, at a third of the cost of a page fault each,
  /// so that no message waits for one. Does nothing before Linux 5.14.
  void enter_pages(uint64_t offset, uint64_t bytes) const;
  /// The descriptor that peers map; −1 for a peer's segment.
  int fd() const { return fd_.get(); }

 private:
  Segment(Fd fd, unsigned char* base, uint64_t bytes) : fd_(std::move(fd)), base_(base), bytes_(bytes) {}

  Fd fd_;
  unsigned char* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tutti::transports
