// Memory of peers that a device reads and writes, without their processors: what windows (src/rma) need of a transport
// with RDMA.
//
//   owner                                      a peer
//   expose(memory, bytes, key)  ── key ──►
//   accept(peer, offer)         ◄── offer ──   make_queue(peer), offer()
//                               ── answer ──►  connect(answer); write(), read(), …
//   destroy the handle: the device refuses what comes later
//
// What the arrows carry is the caller's to carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/rank.hpp"

namespace tutti::transports {

/// Some exposed memory, and the right to use it.
struct RemoteKey {
  uint64_t address = 0;
  uint64_t bytes = 0;  ///< 0: nothing is exposed
  uint64_t key = 0;    ///< the device's
  bool operator==(const RemoteKey&) const = default;
};

/// Between whose steps on a peer's memory the device's atomic ones are atomic: those of devices, or also those of the
/// processors of its host.
enum class RemoteAtomics : uint8_t { None, BetweenDevices, Global };

/// What ends a wait.
class RemoteWait {
 public:
  /// Called at least every few milliseconds. Throws Error to end the wait.
  virtual void check() = 0;
  /// Called when some of what is waited for has been done.
  virtual void progressed() {}

 protected:
  ~RemoteWait() = default;
};

/// The way of this rank to what one peer exposes. The caller has checked that what it names lies in the memory of the
/// key; the peer's device checks it once more. Uses come from one thread at a time.
///
/// All may throw: what `wait` throws; Error(InvalidUsage) where the peer's device refuses the access, since the memory
/// is exposed no more; PeerFailed where the peer's device does not answer; SystemError where this one fails. After an
/// error no byte of this rank's memory is read or written any more, and the queue can only be destroyed. Writes that it
/// has sent may still be done at the peer, until that takes its key back.
///
/// Order: an atomic step, a read and a flush see what was written before. Nothing else orders two calls.
class RemoteQueue {
 public:
  virtual ~RemoteQueue() = default;  ///< what was not flushed may be lost

  /// This end, for the peer: at most kMaxGreeting bytes.
  virtual std::string offer() = 0;
  /// The peer's accept() has answered so. Throws Error(ProtocolError) if that is no answer.
  virtual void connect(const std::string& answer) = 0;
  /// Of the peer's device; known after connect().
  virtual RemoteAtomics atomics() const = 0;

  /// Writes to `offset` of the memory of `key`. Returns when the source may be changed.
  virtual void write(std::span<const std::byte> source, const RemoteKey& key, uint64_t offset, RemoteWait& wait) = 0;
  /// Returns when the bytes are here.
  virtual void read(std::span<std::byte> into, const RemoteKey& key, uint64_t offset, RemoteWait& wait) = 0;
  /// Adds 1 to the 8 bytes at `offset`, some time later: nobody else changes them. Needs atomics().
  virtual void count(const RemoteKey& key, uint64_t offset, RemoteWait& wait) = 0;
  /// Atomic steps on 8 bytes at a multiple of 8. Return what was there before. Need atomics().
  virtual uint64_t add(uint64_t operand, const RemoteKey& key, uint64_t offset, RemoteWait& wait) = 0;
  virtual uint64_t compare_swap(uint64_t expected, uint64_t desired, const RemoteKey& key, uint64_t offset,
                                RemoteWait& wait) = 0;
  /// Returns when all writes are in place. `key`: of 8 bytes at least that may be read.
  virtual void flush(const RemoteKey& key, RemoteWait& wait) = 0;

  static constexpr size_t kMaxGreeting = 256;
};

/// A device, for one rank. accept() may come from another thread than the others, which come from one at a time.
class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;  ///< after its queues and handles

  /// "verbs, mlx5_0:1"
  virtual const std::string& name() const = 0;
  /// Peers may use exactly these bytes until the handle is destroyed; then no access is under way any more. Throws
  /// Error(OutOfMemory | Unsupported) if the device cannot reach them.
  virtual std::shared_ptr<const void> expose(void* memory, uint64_t bytes, RemoteKey& key) = 0;
  /// To `peer`, not connected yet. Throws Error.
  virtual std::unique_ptr<RemoteQueue> make_queue(Rank peer) = 0;
  /// Connects this rank's end of the way from `peer`, in place of an earlier one. Returns the answer. Throws
  /// Error(ProtocolError) if `offer` is none, and what the device refuses.
  virtual std::string accept(Rank peer, const std::string& offer) = 0;
};

}  // namespace tutti::transports
