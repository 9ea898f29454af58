// The interfaces of the sanitizers, where the process has one: the fake itself is built without.
#pragma once

#include <cstddef>

extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void AnnotateIgnoreSyncBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreSyncEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char* file, int line);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* saved, const void** old_bottom, size_t* old_size);
}

namespace fake {

constexpr unsigned kNoSync = 1;  // __tsan_switch_to_fiber_no_sync

/// What happens before a release of `at` is ordered before what follows an acquire of it, to ThreadSanitizer.
inline void tsan_release(void* at) {
  if (__tsan_release != nullptr) __tsan_release(at);
}
inline void tsan_acquire(void* at) {
  if (__tsan_acquire != nullptr) __tsan_acquire(at);
}

/// The fake's own locks and data order nothing between the threads that call it: only what the driver promises does.
class Unseen {
 public:
  Unseen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Within an Unseen: what the driver does promise.
class Seen {
 public:
  Seen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
  ~Seen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
};

/// A stream, as ThreadSanitizer sees it: a thread that does its copies and orders its work.
class StreamThread {
 public:
  StreamThread() : fiber_(__tsan_create_fiber == nullptr ? nullptr : __tsan_create_fiber(0)) {}
  ~StreamThread() {
    if (fiber_ != nullptr) __tsan_destroy_fiber(fiber_);
  }
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  /// The engine is that thread from now on, until it leaves.
  void enter() {
    if (fiber_ == nullptr) return;
    engine_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, kNoSync);
  }
  void leave() {
    if (fiber_ != nullptr) __tsan_switch_to_fiber(engine_, kNoSync);
  }

 private:
  void* fiber_;
  void* engine_ = nullptr;
};

}  // namespace fake
