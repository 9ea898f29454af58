// Memory for checked calls: known bytes before and after it, and invalid values in it until a call writes there.
#pragma once

#include <cstddef>
#include <memory>

namespace tutti::tools {

class GuardedBuffer {
 public:
  static constexpr size_t kGuard = 512;  ///< bytes of each guard
  enum class Kind { Plain, Mapped };     // Mapped: tuttiMemAlloc's, which peers can map
  /// Room for any `arm` of at most this many bytes; the data starts on a page boundary. Throws Error(OutOfMemory).
  explicit GuardedBuffer(size_t capacity, Kind kind = Kind::Plain);

  /// Makes the buffer `bytes` long, all 0xff (floats: NaN), directly between two guards.
  void arm(size_t bytes);
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  /// The data with its guards.
  std::byte* whole() const { return data_ - kGuard; }
  size_t whole_size() const { return size_ + 2 * kGuard; }
  /// Bytes of the guards that have changed since `arm`.
  size_t damaged() const;

 private:
  struct Free {
    Kind kind = Kind::Plain;
    void operator()(std::byte* memory) const;
  };

  size_t capacity_, size_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_;
};

}  // namespace tutti::tools
