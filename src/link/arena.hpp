// A rank's arena: the memory from which peers read its links and staged messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace tutti::link {

/// Two regions: *link memory*, which transports reserve permanently (from any thread), and *staging*, which the
/// executor divides among plans and resets as a whole.
class Arena {
 public:
  static constexpr uint64_t kAlignment = 4096;
  /// `base` must be zeroed, aligned to 4096 bytes and outlive the arena. Link memory gets a quarter of it, or
  /// `for_links` bytes if that is more, up to a half.
  Arena(unsigned char* base, uint64_t bytes, uint64_t for_links = 0)
      : base_(base),
        bytes_(bytes),
        staging_bytes_((bytes - std::clamp(for_links, bytes / 4, bytes / 2)) / kAlignment * kAlignment),
        links_(bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  unsigned char* staging() const { return base_; }
  uint64_t staging_bytes() const { return staging_bytes_; }

  /// Reserves link memory permanently: zeroed, aligned to 128 bytes. Throws Error(OutOfMemory).
  unsigned char* reserve(uint64_t bytes);

 private:
  unsigned char* base_;
  uint64_t bytes_;
  uint64_t staging_bytes_;
  std::mutex mutex_;
  uint64_t links_;  // link memory grows downwards from the end
};

}  // namespace tutti::link
