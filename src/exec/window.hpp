// A window in memory of a backend: a part of each rank, which the processors of all ranks reach (comm/window.hpp).
// Calls on it are enqueued, on streams of the backend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/rank.hpp"

namespace tutti::exec {

inline constexpr uint32_t kWindowSignals = 8;  ///< that a rank can send each other rank in a window, counted apart
/// Calls of a rank on windows that its processor has not ended, at most: a call beyond them waits.
inline constexpr uint64_t kMaxWindowCallsAhead = 128;

/// A call on a window, whose arguments were checked but for places in memory.
struct WindowCall {
  enum class What : uint8_t { Put, Get, Signal, PutSignal, WaitSignal, Add, CompareSwap, Flush };
  static constexpr Rank kAllPeers = -1;

  What what = What::Flush;
  Rank peer = 0;  ///< Flush: or kAllPeers
  uint32_t signal = 0;
  const void* source = nullptr;  ///< of a put
  void* into = nullptr;          ///< of a get; the word before Add and CompareSwap, or null
  uint64_t bytes = 0, offset = 0;
  uint64_t count = 0;  ///< signals to wait for
  uint64_t operand = 0, expected = 0;
  void* stream = nullptr;  ///< of the backend; null: the call returns when it has ended
  uint64_t id = 0;         ///< if it may wait: by which the observer hears of it (kOnWindow)
};

/// Why a part may not be used any more.
enum class WindowEnd : uint64_t {
  No = 0,
  Deregistered,
  Left,  ///< its rank has left the communicator
};

/// A rank's view. One thread at a time. All of it ends before the backend does.
class BackendWindow {
 public:
  virtual ~BackendWindow() = default;
  /// A text for all ranks: their map() reads it.
  virtual std::string part() const = 0;
  /// Reaches the parts of all ranks, by what they gave. Throws Error(Unsupported) with the reason if it cannot reach
  /// one, Error(ProtocolError) for a text that is none, and what asking peers throws.
  virtual void map(const std::vector<std::string>& parts, Deadline deadline) = 0;
  /// Where this rank's processor reaches the peer's part (null: nowhere), and its bytes; after map().
  virtual void* address(Rank peer) const = 0;
  virtual uint64_t bytes(Rank peer) const = 0;
  /// May the stream, or the caller, wait for a peer in this call? Then the observer hears of it by the call's id.
  virtual bool may_wait(const WindowCall& call) const { return call.what == WindowCall::What::WaitSignal; }
  /// Throws Error(InvalidArgument | InvalidUsage) for a mistake in the call, which then has done nothing; other errors
  /// for what the communicator fails with.
  virtual void enqueue(const WindowCall& call) = 0;
  /// Waits until this rank's calls on it have ended. Throws Error(Timeout) if they have not before `deadline`.
  virtual void finish(Deadline deadline) = 0;
  /// Lets go of the peers' parts, when this rank's calls have ended: at once, if they have.
  virtual void unmap() = 0;
  /// From now on peers' calls on this rank's part are refused. Waits until those that were enqueued before have ended;
  /// false if some have not within a moment.
  virtual bool close(WindowEnd why) = 0;
};

}  // namespace tutti::exec
