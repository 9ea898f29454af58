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

inline void begin_unseen() {
  if (AnnotateIgnoreSyncBegin == nullptr) return;
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void end_unseen() {
  if (AnnotateIgnoreSyncBegin == nullptr) return;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

/// The fake's own locks and data order nothing between the threads that call it: only what the driver promises does.
class Unseen {
 public:
  Unseen() { begin_unseen(); }
  ~Unseen() { end_unseen(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Within an Unseen: what the driver does promise.
class Seen {
 public:
  Seen() { end_unseen(); }
  ~Seen() { begin_unseen(); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
};

/// To ThreadSanitizer: what this thread did is before what another does that follows `at`. Of a GPU's thread.
inline void tsan_release(void* at) {
  if (__tsan_release != nullptr) __tsan_release(at);
}
inline void tsan_acquire(void* at) {
  if (__tsan_acquire != nullptr) __tsan_acquire(at);
}
/// The same within an Unseen: of a stream, or of who calls the driver.
inline void precede(void* at) {
  const Seen seen;
  tsan_release(at);
}
inline void follow(void* at) {
  const Seen seen;
  tsan_acquire(at);
}

/// A stream, as ThreadSanitizer sees it: a thread that does its copies and orders its work.
class StreamThread {
 public:
  StreamThread() : fiber_(__tsan_create_fiber == nullptr ? nullptr : __tsan_create_fiber(0)) {
    enter();
    if (fiber_ != nullptr) begin_unseen();
    leave();
  }
  ~StreamThread() {
    enter();
    if (fiber_ != nullptr) end_unseen();
    leave();
    if (fiber_ != nullptr) __tsan_destroy_fiber(fiber_);
  }
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  /// This system thread is that one from now on, until it leaves.
  void enter() {
    if (fiber_ == nullptr) return;
    outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, kNoSync);
  }
  void leave() {
    if (fiber_ != nullptr) __tsan_switch_to_fiber(outside_, kNoSync);
  }

 private:
  void* fiber_;
  void* outside_ = nullptr;
};

}  // namespace fake
