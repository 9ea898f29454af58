// Calls on parts of windows on other hosts: who takes their steps, and how they are waited for.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "exec/cuda/far_copies.hpp"
#include "exec/cuda/window_call.hpp"
#include "exec/cuda/windows.hpp"

namespace tutti::exec::cuda {
namespace {

/// A stream takes the steps. `tell`: before its first wait.
class StreamTurn final : public FarTurn {
 public:
  StreamTurn(CopyStream& stream, const gpu::FarSteps& steps, std::function<void()> tell)
      : stream_(stream), steps_(steps), tell_(std::move(tell)) {}
  void await(uint64_t done) override {
    if (steps_.done() >= done) return;
    if (!waits_) tell_();
    waits_ = true;
    stream_.wait_long(steps_.done_at(), done, 0);
  }
  void copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) override { stream_.copy(to, from, bytes); }
  void post(uint64_t steps) override { stream_.write_long(steps_.posted_at(), steps); }
  void begin() override { stream_.flush(); }

 private:
  CopyStream& stream_;
  const gpu::FarSteps& steps_;
  const std::function<void()> tell_;
  bool waits_ = false;
};

/// The host takes them: only copies need a stream, on which nothing waits for another rank (run_to_end). `until`:
/// returns when that is so, or throws.
class HostTurn final : public FarTurn {
 public:
  using Until = std::function<void(const std::function<bool()>& is_so)>;
  HostTurn(CUstream copies, gpu::FarSteps& steps, Until until)
      : stream_(copies), steps_(steps), until_(std::move(until)) {}
  void await(uint64_t done) override {
    until_([&] { return steps_.done() >= done; });
  }
  void copy(CUdeviceptr to, CUdeviceptr from, uint64_t bytes) override {
    const uint64_t number = steps_.copied() + 1;
    stream_.copy(to, from, bytes);
    stream_.write_long(steps_.copied_at(), number);
    stream_.flush();
    until_([&] { return steps_.copied() >= number; });
  }
  void post(uint64_t steps) override { steps_.post(steps); }
  void begin() override {}

 private:
  CopyStream stream_;
  gpu::FarSteps& steps_;
  const Until until_;
};

std::string list(const std::vector<Rank>& ranks) { return fmt::format("{}", fmt::join(ranks, ", ")); }

}  // namespace

/// It reserves pinned memory, which may wait for kernels: so with the first window, not with the first call.
void WindowCalls::start_proxy() {
  if (far_ != nullptr) return;
  auto proxy = std::make_unique<gpu::WindowProxy>(context_, around_.gpu, std::make_unique<FarCopies>(device_, atomic_),
                                                  [this] { return around_.calls.ended() + 1; });
  const auto await_room = [this, steps = proxy->steps()] {
    if (!wait_until([&] { return steps->has_room(); }) || waits_->has_released()) refuse_after_failure();
  };
  far_ = std::make_unique<FarCalls>(context_, std::move(proxy), await_room);
}

bool WindowCalls::is_flushed() const { return far_ == nullptr || !far_->proxy().steps()->is_ahead(); }

/// A wait for what the proxy has not done yet.
void WindowCalls::note_far(const WindowCall& call, uint64_t number) {
  waits_->add({.number = number,
               .id = call.id,
               .peer = call.peer,
               .part = nullptr,
               .server = nullptr,
               .far = far_->proxy().steps()});
}

void WindowCalls::run_far(const CudaWindow& window, const WindowCall& call, CopyStream& stream, uint64_t number) {
  StreamTurn turn(stream, *far_->proxy().steps(), [&] {
    note_far(call, number);
    stream.write_long(waits_->begun_at(), number);
  });
  far_->take(call, window.number_, turn);
}

void WindowCalls::run_far_to_end(CudaWindow& window, const WindowCall& call, uint64_t number) {
  count(window, number);
  note_far(call, number);
  waits_->begin(number);
  HostTurn turn(own_, *far_->proxy().steps(), [&](const std::function<bool()>& is_so) {
    if (wait_until(is_so) && !waits_->has_released()) return;
    waits_->end(number);
    refuse_after_failure();
  });
  far_->take(call, window.number_, turn);
  waits_->end(number);
}

void WindowCalls::flush_far(const CudaWindow& window, Deadline deadline) {
  const WindowCall flush{.what = WindowCall::What::Flush, .peer = WindowCall::kAllPeers};
  if (!takes_far(flush)) return;
  HostTurn turn(own_, *far_->proxy().steps(), [&](const std::function<bool()>& is_so) {
    if (!wait_until(is_so, deadline) || waits_->has_released()) refuse_to_end(window);
  });
  far_->take(flush, window.number_, turn);
}

void WindowCalls::refuse_to_end(const CudaWindow& window) const {
  throw_error(has_failed() ? Code::PeerFailed : Code::Timeout,
              "calls on the window of call {} have not ended: their stream waits for something else", window.number_);
}

/// How each rank is reached, for the log.
std::string CudaWindow::ways() const {
  std::vector<Rank> near, far;
  for (Rank peer = 0; peer < static_cast<Rank>(parts_->size()); ++peer) (of(peer).is_far ? far : near).push_back(peer);
  std::string text = "copies on streams to " + list(near);
  if (!far.empty()) text += fmt::format("; requests through memory of the host to {} (of other hosts)", list(far));
  return text;
}

}  // namespace tutti::exec::cuda
