// Calls on parts of windows on other hosts, as steps for the proxy (exec/gpu/far_steps.hpp):
//
//   put            for each piece: wait until its slot is free; copy the piece to the slot; post
//   signal         post
//   get            post the pieces that have slots; for each: wait until it is done, copy the slot, post one more
//   atomic step    post; wait until it is done; copy what was there before
//   flush          for each peer to which something has been sent: post; wait until it is done
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exec/gpu/window_proxy.hpp"
#include "exec/window.hpp"
#include "transports/cuda/driver.hpp"

namespace tutti::exec::cuda {

/// Who takes a call's steps: a stream, on which this enqueues, or the host, which then waits for each.
class FarTurn {
 public:
  FarTurn() = default;
  virtual ~FarTurn() = default;
  FarTurn(const FarTurn&) = delete;
  FarTurn& operator=(const FarTurn&) = delete;
  /// Until so many steps are done.
  virtual void await(uint64_t done) = 0;
  virtual void copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) = 0;
  /// So many steps may be done.
  virtual void post(uint64_t steps) = 0;
  /// Begins what is enqueued: the caller waits for the proxy.
  virtual void begin() = 0;
};

/// Of one rank. One thread at a time.
class FarCalls {
 public:
  /// `await_room`: returns when FarSteps::has_room(), or throws.
  FarCalls(const BackendContext& context, std::unique_ptr<gpu::WindowProxy> proxy, std::function<void()> await_room);

  gpu::WindowProxy& proxy() const { return *proxy_; }
  bool is_far(Rank peer) const { return far_[static_cast<size_t>(peer)]; }
  /// Does the call take steps?
  bool takes(const WindowCall& call) const;
  /// Before the call's steps. Throws what opening a stream throws.
  void connect(const WindowCall& call) const;
  /// `window`: its number.
  void take(const WindowCall& call, uint64_t window, FarTurn& turn);

 private:
  uint64_t add(FarTurn& turn, const gpu::FarStep& step) const;
  void put(const WindowCall& call, const gpu::FarStep& to, FarTurn& turn) const;
  void get(const WindowCall& call, const gpu::FarStep& from, FarTurn& turn) const;
  void atomic(const WindowCall& call, const gpu::FarStep& on, FarTurn& turn) const;
  void flush(const gpu::FarStep& on, FarTurn& turn);

  const std::unique_ptr<gpu::WindowProxy> proxy_;
  gpu::FarSteps& steps_;
  const std::function<void()> await_room_;
  std::vector<bool> far_;    // by rank
  std::vector<bool> dirty_;  // something was sent that may not be in place yet
};

}  // namespace tutti::exec::cuda
