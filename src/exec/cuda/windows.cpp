#include "exec/cuda/windows.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "exec/cuda/allocations.hpp"
#include "exec/cuda/window_atomic.hpp"
#include "exec/cuda/window_call.hpp"
#include "exec/wait.hpp"
#include "transports/cuda/neighbours.hpp"
#include "transports/cuda/retired.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::Device;
using tutti::cuda::driver;
using tutti::cuda::Neighbours;
using tutti::cuda::Retired;
using tutti::cuda::WithContext;
using What = WindowCall::What;

constexpr double kEndWithin = 2;    // seconds in which what runs ends after a failure, …
constexpr double kAskDevice = 0.1;  // … and between questions to the driver, of a call that waits for its end
constexpr double kLook = 100e-6;    // seconds between looks at whether peers' uses have ended

void store(uint64_t& word, uint64_t value) { std::atomic_ref(word).store(value, std::memory_order_seq_cst); }

int attribute(const Device& device, CUdevice_attribute which) {
  int value = 0;
  return driver().cuDeviceGetAttribute(&value, which, device.handle()) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

WindowCalls::WindowCalls(const BackendContext& context, const Device& device, std::shared_ptr<WindowWaits> waits,
                         Surroundings around)
    : context_(context),
      device_(device),
      waits_(std::move(waits)),
      around_(std::move(around)),
      served_(ServedParts::serve(*context.wireup)) {}

WindowCalls::~WindowCalls() {
  try {
    const WithContext with(device_.context());
    if (own_ != nullptr) driver().cuStreamDestroy(own_);
    if (before_ != nullptr) driver().cuEventDestroy(before_);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

std::unique_ptr<CudaWindow> WindowCalls::make(uint64_t number, void* memory, uint64_t bytes) {
  transports::Wireup& wireup = *context_.wireup;
  const auto& here = wireup.process_id(wireup.rank());
  bool for_processes = false;
  for (Rank peer = 0; peer < wireup.ranks(); ++peer) {
    const auto& there = wireup.process_id(peer);
    for_processes = for_processes || (there.host == here.host && there != here);
  }
  if (attribute(device_, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) == 0) {
    throw_error(Code::Unsupported, "streams of {} cannot wait for words of 8 bytes", device_.name());
  }
  const WithContext with(device_.context());
  const std::optional<Allocation> in = bytes > 0 ? allocation_of(memory) : std::nullopt;
  if (in && in->device != device_.number()) {
    throw_error(Code::InvalidArgument, "the buffer lies on device {}, but this rank uses {}", in->device,
                device_.name());
  }
  if (atomic_.function == nullptr) atomic_ = window_kernel(device_);
  if (own_ == nullptr) {
    tutti::cuda::check(driver().cuStreamCreateWithPriority(&own_, CU_STREAM_NON_BLOCKING, 0),
                       "a stream cannot be made");
  }
  if (before_ == nullptr) {
    tutti::cuda::check(driver().cuEventCreate(&before_, CU_EVENT_DISABLE_TIMING), "an event cannot be made");
  }
  const bool flushes = attribute(device_, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES) != 0;
  wait_flags_ = flushes ? CU_STREAM_WAIT_VALUE_FLUSH : 0;
  const auto own = std::make_shared<OwnPart>(device_, memory, bytes, wireup.ranks(), for_processes);
  Neighbours<OwnPart>::instance().add({part_name(wireup, number), wireup.rank()}, own);
  served_->add(number, own);
  if (context_.network->has_other_hosts()) {
    start_proxy();
    far_->proxy().server()->expose(number,
                                   {.memory = own->memory(),
                                    .bytes = bytes,
                                    .signals = own->line_at(0) + offsetof(WindowLine, arrived),
                                    .stride = sizeof(WindowLine),
                                    .arrived = {}},
                                   wireup.ranks());
  }
  return std::make_unique<CudaWindow>(*this, number, own);
}

void WindowCalls::run(CudaWindow& window, const WindowCall& call) {
  const WithContext with(device_.context());
  if (window.parts_ == nullptr) refuse(Code::InvalidUsage, "the window is not mapped");
  const auto stream = call.stream == nullptr ? CU_STREAM_LEGACY : static_cast<CUstream>(call.stream);
  if (stream != CU_STREAM_LEGACY) around_.streams.check(stream);
  refuse_capture(stream);
  check_call(window, call);
  around_.start_held();
  if (takes_far(call)) far_->connect(call);
  if (call.stream == nullptr) return run_to_end(window, call);
  const UserStream on = around_.streams.get(stream);
  const uint64_t number = around_.calls.next(kMaxWindowCallsAhead);
  around_.streams.follow_last(on);
  begin_use(window, call);
  count(window, number);
  enqueue(window, call, on, number);
  around_.streams.called(on);
}

/// Before it is enqueued: of one that is enqueued in part, since the driver fails, a copy may run, so that what it uses
/// is kept.
void WindowCalls::count(CudaWindow& window, uint64_t number) const {
  window.last_ = number;
  around_.calls.add();
  around_.called();
}

/// Only copies and atomic steps need a stream. So no stream waits for another rank, whose own calls may be behind it in
/// a queue of the hardware; and a copy of ordinary memory, which may wait in the driver, waits for nobody.
void WindowCalls::run_to_end(CudaWindow& window, const WindowCall& call) {
  const uint64_t number = around_.calls.next(1);  // those before have ended
  if (call.what == What::WaitSignal) return await_signal(window, call, number);
  await_default_stream();
  if (takes_far(call)) return run_far_to_end(window, call, number);
  if (is_use(call)) {
    const UserStream on = around_.streams.get(own_);
    WindowCall without_signal = call;
    if (call.what == What::PutSignal) without_signal.what = What::Put;
    begin_use(window, without_signal);
    count(window, number);
    enqueue(window, without_signal, on, number);
    if (!wait_until([&] { return waits_->ended() >= number; })) refuse_after_failure();
  }
  if (call.what != What::Signal && call.what != What::PutSignal) return;
  PeerPart& part = window.of(call.peer);
  store(part.line->arrived[call.signal], ++part.sent[call.signal]);
}

/// It waits for all blocking streams. To ask it whether it has work would not wait for them.
void WindowCalls::await_default_stream() const {
  tutti::cuda::check(driver().cuEventRecord(before_, CU_STREAM_LEGACY), "an event cannot be recorded");
  wait_until([&] { return driver().cuEventQuery(before_) != CUDA_ERROR_NOT_READY; });
}

/// The host looks at the word itself.
void WindowCalls::await_signal(CudaWindow& window, const WindowCall& call, uint64_t number) {
  const uint64_t wanted = note_wait(window, call, number);
  count(window, number);
  waits_->begin(number);
  const uint64_t& word = window.own_->line(call.peer).arrived[call.signal];
  const bool came = wait_until([&] { return load(word) >= wanted; });
  waits_->end(number);
  if (!came || waits_->has_released()) refuse_after_failure();
}

/// Of two threads, each of which stores its word, then reads the other's, one sees the other's.
void WindowCalls::begin_use(CudaWindow& window, const WindowCall& call) const {
  if (!is_use(call) || window.of(call.peer).is_far) return;
  PeerPart& part = window.of(call.peer);
  store(part.line->begun, part.uses + 1);
  if (load(part.line->closed) != 0) {
    store(part.line->begun, part.uses);
    refuse_if_closed(window, call.peer);
  }
  ++part.uses;
}

void WindowCalls::enqueue(CudaWindow& window, const WindowCall& call, const UserStream& on, uint64_t number) {
  CopyStream stream(on.stream);
  if (call.what == What::WaitSignal) wait_signal(window, call, stream, number);
  if (takes_far(call)) {
    run_far(window, call, stream, number);
  } else if (is_use(call) || call.what == What::Signal) {
    PeerPart& part = window.of(call.peer);
    const CUdeviceptr there = part.memory + call.offset;
    if (is_put(call)) stream.copy(there, reinterpret_cast<CUdeviceptr>(call.source), call.bytes);
    if (call.what == What::Get) stream.copy(reinterpret_cast<CUdeviceptr>(call.into), there, call.bytes);
    if (is_atomic(call)) atomic_step(part, call, on, stream);
    if (call.what == What::Signal || call.what == What::PutSignal) {
      const CUdeviceptr arrived = part.line_at + offsetof(WindowLine, arrived);
      stream.write_long(arrived + call.signal * sizeof(uint64_t), ++part.sent[call.signal]);
    }
    if (is_use(call)) stream.write_long(part.line_at + offsetof(WindowLine, ended), part.uses);
  }
  stream.write_long(waits_->ended_at(), number);
  stream.flush();
}

/// The signals that will have arrived when it ends.
uint64_t WindowCalls::note_wait(CudaWindow& window, const WindowCall& call, uint64_t number) {
  uint64_t& taken = window.taken_[static_cast<size_t>(call.peer) * kWindowSignals + call.signal];
  taken += call.count;
  waits_->add({.number = number,
               .id = call.id,
               .peer = call.peer,
               .signal = call.signal,
               .wanted = taken,
               .part = window.own_,
               .server = window.of(call.peer).is_far ? far_->proxy().server() : nullptr,
               .far = nullptr});
  return taken;
}

void WindowCalls::wait_signal(CudaWindow& window, const WindowCall& call, CopyStream& stream, uint64_t number) {
  const uint64_t wanted = note_wait(window, call, number);
  const CUdeviceptr arrived = window.own_->line_at(call.peer) + offsetof(WindowLine, arrived);
  stream.write_long(waits_->begun_at(), number);
  stream.wait_long(arrived + call.signal * sizeof(uint64_t), wanted, wait_flags_);
}

void WindowCalls::atomic_step(const PeerPart& part, const WindowCall& call, const UserStream& on,
                              CopyStream& stream) const {
  WindowAtomic arguments{.at = reinterpret_cast<uint64_t*>(part.memory + call.offset),
                         .before = reinterpret_cast<uint64_t*>(around_.before),
                         .operand = call.operand,
                         .expected = call.expected,
                         .compares = call.what == What::CompareSwap ? 1U : 0U};
  void* parameters[] = {&arguments};
  const CUfunction function = on.multiprocessors == 0 ? atomic_.function : atomic_.of_any_context();
  tutti::cuda::check(driver().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on.stream, parameters, nullptr),
                     "the kernel for an atomic step cannot be launched");
  if (call.into != nullptr) {
    stream.copy(reinterpret_cast<CUdeviceptr>(call.into), around_.before, sizeof(uint64_t));
  }
}

/// False: the communicator has failed, and it is not so in a moment; or the deadline has passed. (The watcher finds
/// that a wait for a signal takes too long.)
bool WindowCalls::wait_until(const std::function<bool()>& is_so, Deadline deadline) const {
  Waiter waiter(*context_.backoff);
  std::optional<Deadline> ends;
  double asked = 0;
  while (!is_so()) {
    if (has_failed() && !ends) ends = Deadline::in(kEndWithin);
    if (deadline.passed() || (ends && ends->passed())) return false;
    const double rest = waiter.turn();
    if (rest == 0) continue;
    nap(rest);
    if (waiter.stalled() - asked < kAskDevice) continue;
    asked = waiter.stalled();
    if (const std::string why = device_.stream().failure(); !why.empty()) {
      throw_error(Code::SystemError, "{} has failed: {}", device_.name(), why);
    }
  }
  return true;
}

void WindowCalls::refuse_after_failure() {
  throw_error(Code::PeerFailed, "the communicator has failed before the call had ended");
}

// ---- a window

CudaWindow::CudaWindow(WindowCalls& calls, uint64_t number, std::shared_ptr<OwnPart> own)
    : calls_(calls),
      number_(number),
      own_(std::move(own)),
      taken_(static_cast<size_t>(own_->ranks()) * kWindowSignals) {}

CudaWindow::~CudaWindow() {
  if (calls_.far_ != nullptr) calls_.far_->proxy().server()->withdraw(number_, Deadline::in(0));
  calls_.served_->remove(number_);
  unmap();
  Retired::instance().put(calls_.device_, std::move(own_));  // freeing it may wait for kernels
}

void CudaWindow::map(const std::vector<std::string>& texts, Deadline deadline) {
  transports::Wireup& wireup = *calls_.context_.wireup;
  auto parts = std::make_shared<Parts>();
  for (Rank peer = 0; peer < wireup.ranks(); ++peer) {
    parts->push_back(reach_part(wireup, calls_.device_, number_, peer, texts[static_cast<size_t>(peer)], deadline));
    parts->back().has_atomics = parts->back().is_far || calls_.around_.has_atomics(peer);
  }
  parts_ = std::move(parts);
  if (log_enabled(LogLevel::Info)) log_info("rank {}: window of call {}: {}", wireup.rank(), number_, ways());
}

bool CudaWindow::is_in_use() const { return calls_.waits_->ended() < last_; }

void CudaWindow::finish(Deadline deadline) {
  if (!calls_.wait_until([&] { return !is_in_use(); }, deadline)) calls_.refuse_to_end(*this);
  calls_.flush_far(*this, deadline);
}

void CudaWindow::unmap() {
  const std::shared_ptr<WindowWaits>& waits = calls_.waits_;
  if (!is_in_use()) {
    parts_.reset();
    return waits->forget(*own_);
  }
  using Kept = std::tuple<std::shared_ptr<OwnPart>, std::shared_ptr<Parts>, std::shared_ptr<gpu::FarSteps>>;
  auto steps = calls_.far_ == nullptr ? nullptr : calls_.far_->proxy().steps();
  release_until(calls_.device_, waits, last_, std::make_shared<Kept>(own_, std::move(parts_), std::move(steps)));
}

bool CudaWindow::close(WindowEnd why) {
  const Observer& observer = *calls_.context_.observer;
  for (Rank peer = 0; peer < own_->ranks(); ++peer) store(own_->line(peer).closed, static_cast<uint64_t>(why));
  const Deadline deadline = Deadline::in(kEndWithin);
  bool all = true;
  for (Rank peer = 0; peer < own_->ranks(); ++peer) {
    const WindowLine& line = own_->line(peer);
    const auto in_use = [&] { return load(line.ended) < load(line.begun) && !observer.lost(peer); };
    while (in_use() && !deadline.passed()) nap(kLook);
    all = all && !in_use();
  }
  if (calls_.far_ != nullptr) all = calls_.far_->proxy().server()->withdraw(number_, deadline) && all;
  return all;
}

}  // namespace tutti::exec::cuda
