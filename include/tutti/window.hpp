// Windows for C++: a buffer of each rank that all ranks may read, write and signal. See the windows of tutti.h, whose
// order of memory and errors apply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/check.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// This rank's view of a window of T. Offsets and lengths are in elements. With a stream, calls run on it, in order,
/// and what they use must remain until it is synchronised. Empty after a move.
template <class T>
class Window {
  static_assert(std::is_trivially_copyable_v<T>, "other ranks copy it byte by byte");

 public:
  Window() = default;
  /// All ranks of the communicator make it, at the same place among their calls; it must end before the communicator.
  /// `part` is this rank's, which must remain as long.
  template <class Communicator>
  Window(const Communicator& comm, std::span<T> part) {
    check(tuttiWindowRegister(comm.handle(), part.data(), part.size_bytes(), &handle_));
  }
  Window(Window&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Window& operator=(Window&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  /// Deregisters it, which all ranks do; an error goes to the log. close() throws it.
  ~Window() {
    if (handle_ != nullptr && tuttiWindowDeregister(handle_) != tuttiSuccess) tuttiLog("error", tuttiGetLastError());
  }
  void close() { check(tuttiWindowDeregister(std::exchange(handle_, nullptr))); }
  tuttiWindow_t handle() const { return handle_; }

  /// Elements of the peer's part.
  size_t size(int peer) const {
    size_t bytes = 0;
    check(tuttiWindowSize(handle_, peer, &bytes));
    return bytes / sizeof(T);
  }
  /// Where loads and stores reach the peer's part; null: nowhere.
  T* address(int peer) const {
    void* address = nullptr;
    check(tuttiWindowPeer(handle_, peer, &address));
    return static_cast<T*>(address);
  }

  void put(std::span<const T> source, int peer, size_t offset, tuttiStream_t stream = nullptr) const {
    check(tuttiPut(source.data(), source.size_bytes(), peer, bytes_before(offset), handle_, stream));
  }
  void get(std::span<T> target, int peer, size_t offset, tuttiStream_t stream = nullptr) const {
    check(tuttiGet(target.data(), target.size_bytes(), peer, bytes_before(offset), handle_, stream));
  }
  void signal(int peer, int signal = 0, tuttiStream_t stream = nullptr) const {
    check(tuttiSignal(peer, signal, handle_, stream));
  }
  void put_signal(std::span<const T> source, int peer, size_t offset, int signal = 0,
                  tuttiStream_t stream = nullptr) const {
    check(tuttiPutSignal(source.data(), source.size_bytes(), peer, bytes_before(offset), signal, handle_, stream));
  }
  void wait_signal(int peer, int signal = 0, uint64_t count = 1, tuttiStream_t stream = nullptr) const {
    check(tuttiWaitSignal(peer, signal, count, handle_, stream));
  }
  /// *before, unless it is null: what was there before. It is set when the call has run.
  void atomic_add(uint64_t operand, int peer, size_t offset, uint64_t* before = nullptr,
                  tuttiStream_t stream = nullptr) const {
    static_assert(sizeof(T) == sizeof(uint64_t), "atomic steps are of 8 bytes");
    check(tuttiAtomicAdd(operand, before, peer, bytes_before(offset), handle_, stream));
  }
  /// Likewise: `desired` is there now if *before is `expected`.
  void atomic_compare_swap(uint64_t expected, uint64_t desired, int peer, size_t offset, uint64_t* before = nullptr,
                           tuttiStream_t stream = nullptr) const {
    static_assert(sizeof(T) == sizeof(uint64_t), "atomic steps are of 8 bytes");
    check(tuttiAtomicCompareSwap(expected, desired, before, peer, bytes_before(offset), handle_, stream));
  }
  void flush(int peer = TUTTI_ALL_PEERS, tuttiStream_t stream = nullptr) const {
    check(tuttiFlush(peer, handle_, stream));
  }
  void barrier(tuttiStream_t stream = nullptr) const { check(tuttiWindowBarrier(handle_, stream)); }

 private:
  /// A product that does not fit lies in no part, and must not wrap to an offset that does: the call refuses SIZE_MAX.
  static constexpr size_t bytes_before(size_t offset) {
    return offset <= SIZE_MAX / sizeof(T) ? offset * sizeof(T) : SIZE_MAX;
  }

  tuttiWindow_t handle_ = nullptr;
};

}  // namespace tutti
