// The objects behind a C interface's handles lie in a region of memory for each kind, so that any value that a caller
// passes can be checked without reading what it points to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <utility>

namespace tutti {

/// Room for `kMax` objects of a kind, of which memory is used only for those that are made. Places of retired objects
/// are used again, the oldest first and only after `kKept` others, so that a stale handle is recognised. All but has()
/// is for one thread at a time. The memory stays until the process ends, since threads may outlive main().
template <class Object, size_t kMax, size_t kKept>
class HandleRegion {
 public:
  constexpr HandleRegion() = default;

  /// Whether the value may be the address of a place: what lies there can be read, and must tell an object by itself,
  /// since it may be the middle of one. Nothing is read here. For any thread.
  bool has(const Object* value) const {
    const auto first = reinterpret_cast<uintptr_t>(first_.load(std::memory_order_acquire));
    const uintptr_t offset = reinterpret_cast<uintptr_t>(value) - first;
    return first != 0 && offset <= (kMax - 1) * sizeof(Object) && offset % alignof(Object) == 0;
  }

  /// A place, and whether an object of before is still in it; null if all are in use. Throws std::bad_alloc.
  std::pair<Object*, bool> take() {
    if (retired_ != nullptr && !retired_->empty() && (retired_->size() > kKept || used_ == kMax)) {
      Object* const again = retired_->front();
      retired_->pop_front();
      return {again, true};
    }
    if (used_ == kMax) return {nullptr, false};
    if (first_.load(std::memory_order_relaxed) == nullptr) reserve();
    return {first_.load(std::memory_order_relaxed) + used_++, false};
  }
  void retire(Object* object) {
    if (retired_ == nullptr) retired_ = new std::deque<Object*>;
    retired_->push_back(object);
  }
  /// The retired object that is no longer among the last `kKept` since the last retire(); null if there is none.
  Object* passed_over() const {
    const size_t retired = retired_ == nullptr ? 0 : retired_->size();
    return retired > kKept ? (*retired_)[retired - 1 - kKept] : nullptr;
  }

  Object* begin() const { return first_.load(std::memory_order_relaxed); }
  Object* end() const { return begin() + used_; }

 private:
  void reserve() {
    void* const memory = std::calloc(kMax, sizeof(Object));  // from the kernel, which gives pages when they are used
    if (memory == nullptr) throw std::bad_alloc();
    first_.store(static_cast<Object*>(memory), std::memory_order_release);
  }

  std::atomic<Object*> first_{nullptr};
  size_t used_ = 0;
  std::deque<Object*>* retired_ = nullptr;
};

}  // namespace tutti
