#include "compat/torch/gpu_work.hpp"

#include <c10/core/StreamGuard.h>

#include <thread>
#include <utility>

#include "compat/torch/gpu_streams.hpp"
#include "compat/torch/python.hpp"
#include "compat/torch/rendezvous.hpp"
#include "tutti/error.hpp"

namespace tutti_torch {

using std::chrono::milliseconds;

// ---- GpuComm

GpuComm::~GpuComm() {
  try {
    leave();
  } catch (...) {  // nobody is left to be told
  }
}

tuttiResult_t GpuComm::state() const {
  const std::lock_guard lock(mutex_);
  tuttiResult_t state = failed_ ? static_cast<tuttiResult_t>(failed_->code()) : tuttiSuccess;
  if (comm_ != nullptr) tutti::check(tuttiCommGetAsyncError(comm_, &state));
  return state;
}

std::exception_ptr GpuComm::failure(milliseconds limit) const {
  const tuttiResult_t result = state();
  if (result == tuttiSuccess) return nullptr;
  try {
    const std::lock_guard lock(mutex_);
    if (failed_) throw tutti::Error(*failed_);
    throw tutti::Error(static_cast<tutti::Code>(result), tuttiCommGetErrorText(comm_));
  } catch (...) {
    return as_torch_error(limit);
  }
}

void GpuComm::abort() {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) tutti::check(tuttiCommAbort(comm_));
}

void GpuComm::set_timeout(double seconds) {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) tutti::check(tuttiCommSetTimeout(comm_, seconds));
}

void GpuComm::leave() {
  tuttiComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    tuttiResult_t state = tuttiSuccess;
    tuttiCommGetAsyncError(comm_, &state);
    if (state != tuttiSuccess) failed_.emplace(static_cast<tutti::Code>(state), tuttiCommGetErrorText(comm_));
    comm = std::exchange(comm_, nullptr);
  }
  try {
    tutti_torch::leave(comm);
  } catch (const tutti::Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = error;
    throw;
  }
}

// ---- enqueued

void GpuWork::collect(const std::vector<at::Tensor>& outputs) {
  const std::lock_guard lock(mutex_);
  collecting_ = true;
  outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
}

void GpuWork::enqueued(std::shared_ptr<const GpuComm> comm, const c10::Stream& stream, std::vector<Body> kept) {
  const bool captured = is_capturing(stream);
  c10::Event end(stream.device_type());
  end.record(stream);
  std::function<void()> profiled;
  {
    const std::lock_guard lock(mutex_);
    end_.emplace(std::move(end));
    comm_ = std::move(comm);
    stream_ = stream;
    captured_ = captured;
    // What runs on the caller's own stream comes before all that may take the tensors' memory there.
    if (stream != *from_) kept_ = std::move(kept);
    enqueued_ = true;
    profiled = std::exchange(recordFunctionEndCallback_, nullptr);
  }
  cv_.notify_all();
  if (profiled) profiled();
}

void GpuWork::set_deadline(milliseconds limit) {
  call_limit_ = limit;
  deadline_ = Clock::now() + limit;
}

bool GpuWork::is_enqueued() const {
  const std::lock_guard lock(mutex_);
  return enqueued_;
}

/// Only messages between two ranks are enqueued later, by a thread, while their ranks connect.
void GpuWork::wait_until_enqueued() {
  std::unique_lock lock(mutex_);
  if (enqueued_ || completed_) return;
  if (collecting_) {
    C10_THROW_ERROR(DistBackendError,
                    "wait: the call is one of a group of calls that has not ended: wait for the group");
  }
  const WithoutGil without;
  while (!cv_.wait_for(lock, milliseconds(50), [this] { return enqueued_ || completed_; })) {
    lock.unlock();
    check_signals();
    lock.lock();
  }
}

// ---- waits

void GpuWork::synchronize() {
  wait_until_enqueued();
  std::vector<Body> released;
  {
    const std::lock_guard lock(mutex_);
    if (!enqueued_) return;
    const c10::Stream now = current_stream(stream_->device());
    if (now != *stream_) end_->block(now);
    // On the stream that owns the memory all later uses come after the call.
    if (now == *from_) released = std::move(kept_);
  }
}

bool GpuWork::wait(milliseconds timeout) {
  wait_until_enqueued();
  if (const auto error = exception()) std::rethrow_exception(error);
  synchronize();
  if (!captured_ && (host_waits_ || timeout.count() > 0)) wait_on_host(timeout);
  return true;
}

void GpuWork::wait_on_host(milliseconds timeout) {
  {
    const WithoutGil without;
    const auto start = Clock::now();
    for (milliseconds pause{0}; !isCompleted(); pause = std::min(pause + milliseconds(1), milliseconds(10))) {
      check_signals();
      if (timeout.count() > 0 && Clock::now() - start >= timeout) time_out(timeout);
      std::this_thread::sleep_for(pause);
    }
  }
  if (const auto error = exception()) std::rethrow_exception(error);
}

bool GpuWork::isCompleted() {
  if (has_ended()) return true;
  if (!is_enqueued()) return false;
  return captured_ || end_->query() || exception() != nullptr;
}

std::exception_ptr GpuWork::exception() const {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return exception_;
    if (!enqueued_) return nullptr;
  }
  return comm_->failure(call_limit_.count() > 0 ? call_limit_ : group().timeout());
}

/// The future is marked on a stream that has waited for this call and for nothing else.
c10::intrusive_ptr<c10::ivalue::Future> GpuWork::getFuture() {
  wait_until_enqueued();
  if (const auto error = exception()) std::rethrow_exception(error);
  const c10::Device device = stream_->device();
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{device});
  // In a capture only streams that the program joins may take part: the call's own is one.
  const c10::Stream marker = captured_ ? *stream_ : pooled_stream(device);
  if (!captured_) end_->block(marker);
  const c10::StreamGuard guard(marker);
  future->markCompleted(at::IValue(result()));
  return future;
}

// ---- watched

bool GpuWork::has_ended() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

GpuWork::Progress GpuWork::progress() {
  if (end_->query()) return Progress::Ran;
  return Clock::now() >= deadline_ ? Progress::Late : Progress::Runs;
}

std::exception_ptr GpuWork::late() const {
  try {
    time_out(call_limit_, "The group was aborted");
  } catch (...) {
    return std::current_exception();
  }
}

void GpuWork::ended(std::exception_ptr error) {
  if (!has_ended()) complete(std::move(error));
}

void GpuWork::release() {
  std::vector<Body> released;  // outside of the lock
  {
    const std::lock_guard lock(mutex_);
    released.swap(kept_);
  }
}

}  // namespace tutti_torch
