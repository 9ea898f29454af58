// A rank's arena: the memory from which peers read its links and staged messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace tutti::link {

/// Two regions: *link memory*, which transports reserve permanently (from any thread), and *staging*, which the
/// executor divides among plans and resets as a whole.
class Arena {
 public:
  static constexpr uint64_t kAlignment = 4096;
  /// Makes bytes from an offset, multiples of kAlignment, usable. May throw Error(OutOfMemory).
  using Commit = std::function<void(uint64_t offset, uint64_t bytes)>;

  /// `base` must be zeroed, aligned to 4096 bytes and outlive the arena. Link memory gets a quarter of it, or
  /// `for_links` bytes if that is more, up to a half. `commit` is called for memory before its first use, in the thread
  /// that needs it; empty: all of it is usable.
  Arena(unsigned char* base, uint64_t bytes, uint64_t for_links = 0, Commit commit = {})
      : base_(base),
        bytes_(bytes),
        staging_bytes_((bytes - std::clamp(for_links, bytes / 4, bytes / 2)) / kAlignment * kAlignment),
        commit_(std::move(commit)),
        links_(bytes),
        usable_links_(bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  unsigned char* staging() const { return base_; }
  uint64_t staging_bytes() const { return staging_bytes_; }

  /// Makes the first `bytes` of the staging memory usable. One thread at a time. Throws what the commit throws.
  void use_staging(uint64_t bytes);
  /// Reserves link memory permanently: zeroed, aligned to 128 bytes. Throws Error(OutOfMemory), and what the
  /// commit throws.
  unsigned char* reserve(uint64_t bytes);

 private:
  unsigned char* base_;
  uint64_t bytes_;
  uint64_t staging_bytes_;
  Commit commit_;
  uint64_t usable_staging_ = 0;  // bytes, from the front
  std::mutex mutex_;
  uint64_t links_;         // link memory grows downwards from the end …
  uint64_t usable_links_;  // … and is usable from here
};

}  // namespace tutti::link
