// Notices when memory of this process is unmapped, moved or discarded. A device goes on using the pages that it has
// registered, so a registration that outlives its mapping would send old bytes from the same address.
//
// By userfaultfd: the kernel reports these events for watched ranges, and lets the thread that unmaps continue only
// when the report has been read. No page fault is reported: pages are watched for write protection, which nobody asks
// for. A thread reads the reports. It must not allocate: the thread that waits for it may hold the allocator's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/fd.hpp"

namespace tutti::transports::verbs {

class MappingWatch {
 public:
  /// The process's own, made at the first call.
  static MappingWatch& of_this_process();

  /// Watches these pages from now on. False: the system cannot, or it is memory of another kind (files).
  bool watch(uint64_t begin, uint64_t end);

  struct Gone {
    uint64_t begin = 0, end = 0;
  };
  /// The position of the next report.
  uint64_t position() const { return reports_.load(std::memory_order_acquire); }
  /// Takes the report at `position`, if there is one: of all that was unmapped before the call, none is missing. A
  /// reader that is too late gets a report of everything.
  bool take(uint64_t& position, Gone& gone) const;

 private:
  static constexpr uint64_t kKept = 4096;  // reports

  MappingWatch();
  void read_reports();

  Fd reports_of_kernel_;
  std::atomic<uint32_t> reading_{0};  // a report has been read, or will be, and is not stored yet
  std::atomic<uint64_t> reports_{0};
  struct Stored {
    std::atomic<uint64_t> begin{0}, end{0};
  };
  std::array<Stored, kKept> stored_;
};

}  // namespace tutti::transports::verbs
