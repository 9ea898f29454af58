// A peer's part of a window that loads and stores do not reach, as this rank uses it: a way of its own for each, of
// which requests to the peer's agent (requests.hpp) are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::rma {

/// What carries puts to a peer: the stream to its agent, for instance. All windows of a communicator share it.
class Connection {
 public:
  Connection() = default;
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// When it returns, all that it has carried is in place. `limit`: seconds that this may take.
  virtual void flush(double limit) = 0;

  bool is_dirty = false;  ///< it has carried what may not be in place yet
};

/// One thread at a time uses it. The offsets are checked: the bytes lie in the part. `limit`: seconds that the peer may
/// take. All throw Error(InvalidUsage) where the peer has deregistered the window, left, or freed its memory (RDMA does
/// not notice that), which leaves all as it was; other errors name the peer, and its part cannot be used any more.
///
/// Order: over one connection, a signal arrives after the puts before it. What has been put over others the window
/// flushes before it calls signal(). So one that sends some of its calls in another way, as it may, has them carried by
/// a connection that is marked dirty.
class RemotePart {
 public:
  RemotePart() = default;
  virtual ~RemotePart() = default;
  RemotePart(const RemotePart&) = delete;
  RemotePart& operator=(const RemotePart&) = delete;

  /// Returns when the source may be changed.
  virtual void put(std::span<const std::byte> source, uint64_t offset, double limit) = 0;
  virtual void get(std::span<std::byte> into, uint64_t offset, double limit) = 0;
  virtual void signal(uint32_t signal, double limit) = 0;
  /// Of 8 bytes at a multiple of 8; sequentially consistent. Return what was there before.
  virtual uint64_t add(uint64_t operand, uint64_t offset, double limit) = 0;
  virtual uint64_t compare_swap(uint64_t expected, uint64_t desired, uint64_t offset, double limit) = 0;
  /// "CMA", as the log names it.
  virtual const char* name() const = 0;
  /// What carries its puts and signals; null: nothing has yet, or what it puts is in place when put() returns.
  virtual const Connection* connection() const = 0;
};

}  // namespace tutti::rma
