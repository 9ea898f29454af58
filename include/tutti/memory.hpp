// Memory for calls: owned allocations, and registrations of memory that calls will use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/check.hpp"

namespace tutti {

/// A contiguous range of T that owns its memory, returned by `allocate`. Empty after a move.
template <class T>
class Memory {
  static_assert(std::is_trivial_v<T>, "zeroed bytes must be a T, and no destructor runs");

 public:
  Memory() = default;
  /// Throws Error(OutOfMemory).
  explicit Memory(size_t count) : size_(count) {
    if (count > static_cast<size_t>(-1) / sizeof(T)) {
      throw Error(Code::OutOfMemory, std::to_string(count) + " elements of " + std::to_string(sizeof(T)) +
                                         " bytes are more than there are addresses");
    }
    void* data = nullptr;
    check(tuttiMemAlloc(&data, count * sizeof(T)));
    data_ = static_cast<T*>(data);
  }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, size_t{0})) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Memory() { tuttiMemFree(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  /// In elements.
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// `count` zeroed elements, aligned to 2 MiB, that peers can be given access to. Freed with the object. Calls accept
/// any other memory as well. Throws Error(OutOfMemory).
template <class T>
[[nodiscard]] Memory<T> allocate(size_t count) {
  return Memory<T>(count);
}

/// A buffer of a GPU that peers read in place, in calls on this communicator: see tuttiCommRegister. It ends with the
/// object, which the communicator outlives. Empty after a move.
class Registration {
 public:
  Registration() = default;
  /// Throws Error(Unsupported | InvalidArgument) with the reason.
  Registration(tuttiComm_t comm, const void* buffer, size_t bytes) : comm_(comm) {
    check(tuttiCommRegister(comm, buffer, bytes, &number_));
  }
  Registration(Registration&& other) noexcept : comm_(other.comm_), number_(std::exchange(other.number_, 0)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Registration() {
    if (number_ != 0) tuttiCommDeregister(comm_, number_);
  }
  /// False where there was nothing to gain: host memory, a single rank, ranks of one process on one GPU.
  bool is_used() const { return number_ != 0; }

 private:
  tuttiComm_t comm_ = nullptr;
  uint64_t number_ = 0;
};

}  // namespace tutti
