// Freed blocks of memory, kept for later requests: a step makes the same requests as the step before, and fresh pages
// cost a fault each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

namespace tutti::train {

/// Requests are rounded up to a size class, because sizes may change from step to step: tokens for an expert do.
/// Reserved memory stays within 5/4 of the most that was ever requested at one time: beyond that the blocks that were
/// freed first go back to the system.
class BlockCache {
 public:
  /// Where blocks come from and go to. `take` throws if there is no memory.
  struct Source {
    std::function<void*(size_t bytes, bool shared)> take;
    std::function<void(void* data, bool shared)> give_back;
  };
  explicit BlockCache(Source source) : source_(std::move(source)) {}
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  void* allocate(size_t bytes, bool shared);
  /// As it was allocated.
  void release(void* data, size_t bytes, bool shared) noexcept;
  /// Bytes from the source: of blocks in use and of those that are kept.
  size_t reserved() const { return reserved_; }

  /// `bytes` rounded up to an eighth of a power of two: at most 1/8 more, and 64 at least.
  static size_t size_class(size_t bytes);

 private:
  using Key = size_t;  // the size class; odd: shared
  static Key key_of(size_t bytes, bool shared) { return size_class(bytes) | static_cast<size_t>(shared); }
  struct Free {
    void* data = nullptr;
    Key key = 0;
  };
  void give_back_oldest();

  Source source_;
  std::map<uint64_t, Free> free_;                            // by the time of release
  std::unordered_map<Key, std::vector<uint64_t>> of_class_;  // [class]: places in free_, ascending
  uint64_t time_ = 0;
  size_t reserved_ = 0, requested_ = 0, peak_ = 0;  // peak: of what is requested
};

}  // namespace tutti::train
