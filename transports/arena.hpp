// A rank's staging memory: what its peers read its messages from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace tutti::transports {

/// Two regions: *link memory*, handed out for good by transports (any thread), and *staging*, which the executor
/// divides among plans and takes back as a whole.
class Arena {
 public:
  /// `base` must be zeroed, aligned to 4096 and stay for the arena's life; a quarter of it is for link memory.
  Arena(unsigned char* base, uint64_t bytes) : base_(base), bytes_(bytes), links_(bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  unsigned char* staging() const { return base_; }
  uint64_t staging_bytes() const { return bytes_ / 4 * 3; }

  /// Link memory for good, zeroed, aligned to 128 bytes. Throws Error(OutOfMemory) that says what to raise.
  unsigned char* reserve(uint64_t bytes);

 private:
  unsigned char* base_;
  uint64_t bytes_;
  std::mutex mutex_;
  uint64_t links_;  // link memory grows downwards from the end
};

}  // namespace tutti::transports
