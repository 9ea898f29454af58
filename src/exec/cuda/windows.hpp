// Calls on windows in memory of GPUs: copies by the copy engines, and words that streams wait for and write
// (window_parts.hpp), all on the user's stream. A call allocates nothing and waits for nothing that a GPU does.
//
//   put            copy; "this use of the part has ended"; "this call has ended"
//   signal         write the number of signals sent so far to the peer's words; "this call has ended"
//   wait_signal    "this wait has begun"; wait until as many have arrived; "this call has ended"
//   atomic step    a kernel of one thread, and a copy of what was there before
//
// Without a stream the rank's own one copies, and the host itself stores signals and waits for them.
//
// Parts of other hosts are the proxy's (far_calls.hpp). It writes their signals to the same words.
//
// A stream's write follows all that was enqueued before it, so a signal is seen after what its rank has put. Calls of a
// rank run in their order, also on different streams, as collectives do: so it writes the numbers of signals in theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/backend.hpp"
#include "exec/cuda/copy_stream.hpp"
#include "exec/cuda/far_calls.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/cuda/user_streams.hpp"
#include "exec/cuda/window_parts.hpp"
#include "exec/cuda/window_waits.hpp"
#include "exec/gpu/call_count.hpp"

namespace tutti::exec::cuda {

class CudaWindow;

/// What the windows of a rank share.
class WindowCalls {
 public:
  /// Of the backend, which outlives it. `start_held`: what is to run before a call. `called`: it has been enqueued.
  struct Surroundings {
    const gpu::Gpu& gpu;
    UserStreams& streams;
    gpu::CallCount& calls;
    std::function<void()> start_held, called;
    std::function<bool(Rank peer)> has_atomics;  ///< of this rank's GPU on that of the peer
    CUdeviceptr before;                          ///< 8 bytes of the GPU's memory
  };
  WindowCalls(const BackendContext& context, const tutti::cuda::Device& device, std::shared_ptr<WindowWaits> waits,
              Surroundings around);
  ~WindowCalls();
  WindowCalls(const WindowCalls&) = delete;
  WindowCalls& operator=(const WindowCalls&) = delete;

  /// Backend::make_window().
  std::unique_ptr<CudaWindow> make(uint64_t number, void* memory, uint64_t bytes);
  /// BackendWindow::enqueue().
  void run(CudaWindow& window, const WindowCall& call);
  /// Is all that this rank's calls have sent to other hosts on its way?
  bool is_flushed() const;

 private:
  friend class CudaWindow;
  static constexpr double kForever = 1e9;  // seconds
  void run_to_end(CudaWindow& window, const WindowCall& call);
  void await_signal(CudaWindow& window, const WindowCall& call, uint64_t number);
  void run_far(const CudaWindow& window, const WindowCall& call, CopyStream& stream, uint64_t number);
  void run_far_to_end(CudaWindow& window, const WindowCall& call, uint64_t number);
  /// What has been put to other hosts is in place, or it throws as finish() does.
  void flush_far(const CudaWindow& window, Deadline deadline);
  void start_proxy();
  void note_far(const WindowCall& call, uint64_t number);
  bool takes_far(const WindowCall& call) const { return far_ != nullptr && far_->takes(call); }
  [[noreturn]] void refuse_to_end(const CudaWindow& window) const;
  uint64_t note_wait(CudaWindow& window, const WindowCall& call, uint64_t number);
  void count(CudaWindow& window, uint64_t number) const;
  void begin_use(CudaWindow& window, const WindowCall& call) const;
  void await_default_stream() const;
  void refuse_capture(CUstream stream) const;
  void check_call(const CudaWindow& window, const WindowCall& call) const;
  void check_local(const void* data, uint64_t bytes, const char* what, const WindowCall& call) const;
  void enqueue(CudaWindow& window, const WindowCall& call, const UserStream& on, uint64_t number);
  void wait_signal(CudaWindow& window, const WindowCall& call, CopyStream& stream, uint64_t number);
  void atomic_step(const PeerPart& part, const WindowCall& call, const UserStream& on, CopyStream& stream) const;
  bool wait_until(const std::function<bool()>& is_so, Deadline deadline = Deadline::in(kForever)) const;
  [[noreturn]] static void refuse_after_failure();
  void refuse_if_closed(const CudaWindow& window, Rank peer) const;
  bool has_failed() const { return context_.failed->load(std::memory_order_acquire) != 0; }

  const BackendContext context_;
  const tutti::cuda::Device& device_;
  const std::shared_ptr<WindowWaits> waits_;
  const Surroundings around_;
  const std::shared_ptr<ServedParts> served_;
  std::unique_ptr<FarCalls> far_;  // with the first window, if there are other hosts
  LoadedKernel atomic_;            // with the first window
  CUstream own_ = nullptr;         // likewise: of calls that return when they have ended, …
  CUevent before_ = nullptr;       // … after what the default stream waits for
  unsigned wait_flags_ = 0;        // of a stream's wait, beside the comparison
};

class CudaWindow final : public BackendWindow {
 public:
  CudaWindow(WindowCalls& calls, uint64_t number, std::shared_ptr<OwnPart> own);
  ~CudaWindow() override;

  std::string part() const override { return own_->text(); }
  void map(const std::vector<std::string>& parts, Deadline deadline) override;
  void* address(Rank peer) const override {
    return of(peer).is_far ? nullptr : reinterpret_cast<void*>(of(peer).memory);
  }
  uint64_t bytes(Rank peer) const override { return of(peer).bytes; }
  bool may_wait(const WindowCall& call) const override {
    return call.what == WindowCall::What::WaitSignal || calls_.takes_far(call);
  }
  void enqueue(const WindowCall& call) override { calls_.run(*this, call); }
  void finish(Deadline deadline) override;
  void unmap() override;
  bool close(WindowEnd why) override;

 private:
  friend class WindowCalls;
  using Parts = std::vector<PeerPart>;
  PeerPart& of(Rank peer) const { return (*parts_)[static_cast<size_t>(peer)]; }
  bool is_in_use() const;
  std::string ways() const;

  WindowCalls& calls_;
  const uint64_t number_;  // of the communicator's call that made it
  std::shared_ptr<OwnPart> own_;
  std::shared_ptr<Parts> parts_;  // by rank; empty before map() and after unmap()
  std::vector<uint64_t> taken_;   // signals that calls have waited for, by rank and number
  uint64_t last_ = 0;             // call on it, in gpu::CallCount
};

}  // namespace tutti::exec::cuda
