// The waits for signals that a rank has enqueued, as its host sees them: so a wait can be told to the communicator, and
// ended. Shared, since streams may still wait when the communicator is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "exec/cuda/pinned_record.hpp"
#include "exec/cuda/window_parts.hpp"
#include "exec/gpu/far_server.hpp"
#include "exec/gpu/far_steps.hpp"
#include "exec/gpu/watcher.hpp"
#include "exec/observer.hpp"

namespace tutti::exec::cuda {

class WindowWaits {
 public:
  /// For signals of a peer; or, with `far`, for steps on parts of other hosts.
  struct Wait {
    uint64_t number = 0;  ///< in gpu::CallCount
    uint64_t id = 0;      ///< WindowCall::id
    Rank peer = kNoRank;
    uint32_t signal = 0;
    uint64_t wanted = 0;  ///< signals that have arrived when it ends
    std::shared_ptr<OwnPart> part;
    std::shared_ptr<gpu::FarServer> server;  ///< that the peer's signals come through; null: it is of this host
    std::shared_ptr<gpu::FarSteps> far;
    bool is_satisfied() const;
    /// A signal that the peer has sent may not have arrived.
    bool may_arrive() const { return server != nullptr && !server->has_ended(peer); }
    void release() const;
  };

  WindowWaits(const gpu::Gpu& gpu, const PinnedRecord& record);
  WindowWaits(const WindowWaits&) = delete;
  WindowWaits& operator=(const WindowWaits&) = delete;

  /// A word to which a stream writes the number of a wait that it begins; and that of HostRecord::counted.
  CUdeviceptr begun_at() const { return begun_at_; }
  CUdeviceptr ended_at() const { return ended_at_; }
  /// Calls that have ended.
  uint64_t ended() const;

  void add(const Wait& wait);
  /// The host is in this wait, and no stream; it has ended, as all calls before.
  void begin(uint64_t number);
  void end(uint64_t number);
  /// Nothing of this part is waited for any more.
  void forget(const OwnPart& part);
  /// The one that a stream, or the host, is in.
  std::optional<Wait> current() const;
  /// Ends it. Signals of that number mean nothing from then on.
  void release() const;
  bool has_released() const { return has_released_.load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<unsigned char> record_, memory_;  // pinned
  gpu::HostRecord& host_record_;
  uint64_t* const begun_;
  const CUdeviceptr begun_at_, ended_at_;
  mutable std::mutex mutex_;
  std::array<Wait, kMaxWindowCallsAhead> waits_;  // by number
  mutable std::atomic<bool> has_released_{false};
};

/// Keeps `memory` until so many calls have ended, and ends the waits before: their communicator has failed or left. In
/// a thread of its own.
void release_until(const tutti::cuda::Device& device, const std::shared_ptr<WindowWaits>& waits, uint64_t ended,
                   std::shared_ptr<void> memory);

/// What streams wait for, for the watcher: in calls of copy engines, and for signals.
class StreamWaits final : public gpu::CopyCalls {
 public:
  /// `copies`: null if the copy engines run no calls.
  StreamWaits(const BackendContext& context, const gpu::CopyCalls* copies, const WindowWaits& windows)
      : context_(context), copies_(copies), windows_(windows) {}
  bool runs() const override { return copies_run() || windows_.current().has_value(); }
  uint64_t progress() const override;
  std::optional<Stall> wait() const override;
  std::optional<Fault> wrong() const override { return copies_run() ? copies_->wrong() : std::nullopt; }
  void release() const override;

 private:
  bool copies_run() const { return copies_ != nullptr && copies_->runs(); }
  const BackendContext context_;
  const gpu::CopyCalls* const copies_;
  const WindowWaits& windows_;
};

}  // namespace tutti::exec::cuda
