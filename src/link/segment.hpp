// Memory that processes of one host share without a name: a memfd, passed between processes as a descriptor. Nothing
// has to be unlinked; the kernel frees it when the last process that has it ends, however it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/fd.hpp"
#include "base/limits.hpp"

namespace tutti::link {

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
  /// Where a peer says that its segment lies in the file that it passes.
  struct Place {
    uint64_t offset = 0, bytes = 0;
  };
  /// Maps a segment of `whose` (for error texts, e.g. "rank 3") that came as a descriptor. Throws Error(ProtocolError)
  /// for a descriptor that could shrink, or is not plain memory that holds `place`.
  static Segment map(Fd fd, Place place, const std::string& whose, Access access = Access::Write);

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
  /// The file that peers map, kept open by the result; null for a peer's segment.
  std::shared_ptr<const Fd> file() const { return {part_, part_ == nullptr ? nullptr : part_->file.get()}; }
  /// The segment's first byte in that file.
  uint64_t offset() const { return part_ == nullptr ? 0 : part_->offset; }
  /// A function for when no peer reads the segment any more. After its call the memory is freed with the last copy of
  /// file(); without it, only when the whole file is closed. It may be called after the segment is gone.
  std::function<void()> when_peers_are_done() const;

 private:
  friend class SegmentFiles;
  /// Of a file.
  struct Part {
    std::shared_ptr<const Fd> file;
    uint64_t offset = 0, bytes = 0;
    std::atomic<bool> peers_are_done{false};

    ~Part();
  };

  Segment(std::shared_ptr<Part> part, unsigned char* base, uint64_t bytes)
      : part_(std::move(part)), base_(base), bytes_(bytes) {}

  std::shared_ptr<Part> part_;
  unsigned char* base_ = nullptr;
  uint64_t bytes_ = 0;
};

/// Files from which the arenas of a communicator and its splits are cut, so that hundreds of them need one descriptor.
/// No part of a file is used twice: a peer that was stopped, and lost, may still have it mapped and write to it.
class SegmentFiles {
 public:
  /// Memory that commit() allocates before its use. Throws as Segment::create does.
  Segment cut(uint64_t bytes);

 private:
  std::mutex mutex_;
  std::shared_ptr<const Fd> file_;  // the last one
  uint64_t used_ = 0;               // bytes of it
};

}  // namespace tutti::link
