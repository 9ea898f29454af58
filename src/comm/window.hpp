// A rank's window as its communicator has it, and the one-sided calls on it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/observer.hpp"
#include "exec/pending.hpp"
#include "exec/wait.hpp"
#include "rma/channel.hpp"
#include "rma/target.hpp"
#include "rma/window.hpp"

namespace tutti::comm {

/// Only the thread whose ticket is served uses it.
struct Window {
  Window(uint64_t window_number, std::shared_ptr<rma::OwnPart> part, Rank ranks)
      : number(window_number), own(std::move(part)), taken(static_cast<size_t>(ranks)) {}

  const uint64_t number;  ///< of the call that made it
  const std::shared_ptr<rma::OwnPart> own;
  std::optional<rma::Window> parts;  ///< of all ranks; empty: deregistered
  /// By rank, as it was made: where its part is reached, or null, and its bytes. Any thread may read them.
  std::vector<std::pair<void*, uint64_t>> places;
  std::vector<std::array<uint64_t, rma::kSignals>> taken;  ///< signals that calls have waited for, by rank

  /// Takes those that a call waits for, if they have arrived.
  bool take(Rank from, uint32_t signal, uint64_t count) {
    uint64_t& before = taken[static_cast<size_t>(from)][signal];
    if (own->from(from).arrived[signal].load(std::memory_order_acquire) < before + count) return false;
    before += count;
    return true;
  }
};

/// What a rank's windows share.
struct WindowServices {
  explicit WindowServices(transports::Wireup& wireup, const std::atomic<uint32_t>& failed);
  ~WindowServices();

  const uint64_t process;  ///< process_generation(): a forked child has no part in it
  const std::shared_ptr<rma::Target> target;
  rma::Channels channels;
  size_t live = 0;  ///< windows
};

/// A call on a window.
struct OneSided {
  enum class What : uint8_t { Put, Get, Signal, PutSignal, WaitSignal, Add, CompareSwap, Flush, Acquire };
  static constexpr Rank kAllPeers = -1;
  static constexpr uint64_t kMaxSignals = uint64_t{1} << 62;

  What what = What::Flush;
  Rank peer = 0;                       ///< Flush: or kAllPeers
  uint32_t signal = 0;                 ///< its number
  const void* source = nullptr;        ///< of a put
  void* into = nullptr;                ///< of a get; the word before Add and CompareSwap, or null
  uint64_t bytes = 0, offset = 0;      ///< in the peer's part
  uint64_t count = 0;                  ///< signals to wait for
  uint64_t operand = 0, expected = 0;  ///< of Add and CompareSwap

  /// Communicator::check() finds the mistakes of one that is not.
  bool is_valid(Rank ranks) const {
    if (static_cast<uint32_t>(peer) >= static_cast<uint32_t>(ranks) && !(what == What::Flush && peer == kAllPeers)) {
      return false;
    }
    switch (what) {
      case What::Put:
      case What::PutSignal:
        return (source != nullptr || bytes == 0) && signal < rma::kSignals;
      case What::Get:
        return into != nullptr || bytes == 0;
      case What::Add:
      case What::CompareSwap:
        return offset % sizeof(uint64_t) == 0;
      case What::WaitSignal:
        return signal < rma::kSignals && count - 1 < kMaxSignals;
      default:
        return signal < rma::kSignals;
    }
  }

  /// It runs last in a group. (Acquire follows a barrier: what other ranks have put before it is seen after it.)
  bool waits() const { return what == What::WaitSignal || what == What::Acquire; }
};

/// "put(4096 bytes, to rank 1 at offset 0)".
std::string describe(const OneSided& call);

/// Waits until so many signals have arrived.
class SignalWait final : public exec::Pending {
 public:
  SignalWait(const rma::SignalLine& line, uint32_t signal, uint64_t wanted, Rank from,
             const std::atomic<uint32_t>& failed, const exec::Backoff& backoff, exec::Observer& observer)
      : line_(line),
        signal_(signal),
        wanted_(wanted),
        from_(from),
        failed_(failed),
        backoff_(backoff),
        observer_(observer) {
    done_ = false;
  }

  bool poll() override {
    done_ = done_ || line_.arrived[signal_].load(std::memory_order_acquire) >= wanted_;
    return done_;
  }
  void wait() override;
  void abort() override {}
  void check_failure(double seconds) override;
  void check_stall(double seconds, uint64_t stall_id) override;
  bool sleep(double) override { return false; }

 private:
  const rma::SignalLine& line_;
  const uint32_t signal_;
  const uint64_t wanted_;
  const Rank from_;
  const std::atomic<uint32_t>& failed_;
  const exec::Backoff& backoff_;
  exec::Observer& observer_;
};

}  // namespace tutti::comm
