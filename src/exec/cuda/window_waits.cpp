#include "exec/cuda/window_waits.hpp"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "exec/gpu/pinned.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(1);  // between looks at what still waits
/// At least what any wait wants: streams compare in a circle, so it is not the greatest of all.
constexpr uint64_t kReleased = ~uint64_t{0} >> 1;

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

CUdeviceptr on_device(const gpu::Gpu& gpu, void* on_host) {
  return reinterpret_cast<CUdeviceptr>(gpu.device_address(static_cast<unsigned char*>(on_host)));
}

}  // namespace

bool WindowWaits::Wait::is_satisfied() const { return load(part->line(peer).arrived[signal]) >= wanted; }

void WindowWaits::Wait::release() const {
  if (far != nullptr) return far->release();
  std::atomic_ref(part->line(peer).arrived[signal]).store(kReleased, std::memory_order_release);
}

WindowWaits::WindowWaits(const gpu::Gpu& gpu, const PinnedRecord& record)
    : record_(record.memory()),
      memory_(gpu::pinned(gpu, sizeof(uint64_t))),
      host_record_(record.host()),
      begun_(new (memory_.get()) uint64_t(0)),
      begun_at_(on_device(gpu, begun_)),
      ended_at_(reinterpret_cast<CUdeviceptr>(&record.device()->counted)) {}

uint64_t WindowWaits::ended() const { return load(host_record_.counted); }

void WindowWaits::add(const Wait& wait) {
  const std::lock_guard lock(mutex_);
  waits_[wait.number % waits_.size()] = wait;
}

void WindowWaits::begin(uint64_t number) { std::atomic_ref(*begun_).store(number, std::memory_order_release); }

void WindowWaits::end(uint64_t number) {
  std::atomic_ref(host_record_.counted).store(number, std::memory_order_release);
}

void WindowWaits::forget(const OwnPart& part) {
  const std::lock_guard lock(mutex_);
  for (Wait& wait : waits_) {
    if (wait.part.get() == &part) wait = {};
  }
}

std::optional<WindowWaits::Wait> WindowWaits::current() const {
  const uint64_t begun = load(*begun_);
  if (begun <= ended()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Wait& wait = waits_[begun % waits_.size()];
  const bool is_known = wait.part != nullptr || wait.far != nullptr;
  return wait.number == begun && is_known ? std::optional(wait) : std::nullopt;
}

/// The peer's stream, or the proxy, may still write less: then it takes another turn.
void WindowWaits::release() const {
  const std::optional<Wait> wait = current();
  if (!wait) return;
  has_released_.store(true, std::memory_order_release);
  wait->release();
}

void release_until(const tutti::cuda::Device& device, const std::shared_ptr<WindowWaits>& waits, uint64_t ended,
                   std::shared_ptr<void> memory) {
  auto* const kept = new std::shared_ptr<void>(std::move(memory));  // in use: never freed if there is no thread
  const auto work = [&device, waits, ended, kept] {
    const std::unique_ptr<std::shared_ptr<void>> freed_at_the_end(kept);
    while (waits->ended() < ended && device.stream().failure().empty()) {
      waits->release();
      std::this_thread::sleep_for(kTurn);
    }
  };
  try {
    start_thread(work).detach();
  } catch (const std::exception& error) {
    log_warn("cuda: calls on windows that are still enqueued would wait for ever, and what they use is never freed: {}",
             error.what());
  }
}

uint64_t StreamWaits::progress() const {
  const std::optional<WindowWaits::Wait> wait = windows_.current();
  if (!wait) return copies_ != nullptr ? copies_->progress() : 0;
  const uint64_t steps = wait->far != nullptr ? wait->far->done() : 0;
  return kOnWindow | (wait->id + steps * kMaxWindowCallsAhead) % kOnWindow;
}

std::optional<Stall> StreamWaits::wait() const {
  if (copies_run()) return copies_->wait();
  const std::optional<WindowWaits::Wait> wait = windows_.current();
  if (!wait) return std::nullopt;
  Stall stall{.await = Await::FarSignal, .peer = wait->peer, .call = kOnWindow | wait->id};
  if (wait->far != nullptr) {
    if (!wait->far->is_ahead()) return std::nullopt;  // the stream does something else
    stall.peer = wait->far->awaited();
    stall.what = "an answer";
  } else {
    // A rank leaves when what it has enqueued has ended.
    const bool left = context_.observer->left(wait->peer), all_here = !wait->may_arrive();
    if (wait->server == nullptr || left) stall.await = Await::Signal;
    stall.has_left = left && all_here && !wait->is_satisfied();
  }
  stall.all = {{.peer = stall.peer, .await = stall.await}};
  return stall;
}

void StreamWaits::release() const {
  if (copies_run()) copies_->release();
  windows_.release();
}

}  // namespace tutti::exec::cuda
