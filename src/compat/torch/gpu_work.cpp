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
  return state_now();
}

tuttiResult_t GpuComm::state_now() const {
  tuttiResult_t state = failed_ ? static_cast<tuttiResult_t>(failed_->code()) : tuttiSuccess;
  if (comm_ != nullptr) tutti::check(tuttiCommGetAsyncError(comm_, &state));
  return state;
}

std::exception_ptr GpuComm::failure(milliseconds limit) const {
  const std::lock_guard lock(mutex_);
  const tuttiResult_t result = state_now();
  if (result == tuttiSuccess) return nullptr;
  try {
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

// ---- GpuRun

GpuRun::GpuRun(std::shared_ptr<const GpuComm> comm, const c10::Stream& from, const c10::Stream& stream,
               std::vector<Body>&& kept, Clock::time_point deadline)
    : comm_(std::move(comm)),
      from_(from),
      stream_(stream),
      captured_(is_capturing(stream)),
      deadline_(deadline),
      end_(stream.device_type()) {
  end_.record(stream);
  // What runs on the caller's own stream comes before all that may take the tensors' memory there.
  if (stream != from) kept_ = std::move(kept);
}

GpuRun::Progress GpuRun::progress() const {
  if (end_.query()) return Progress::Ran;
  return Clock::now() >= deadline_ ? Progress::Late : Progress::Runs;
}

void GpuRun::block(const c10::Stream& stream) {
  if (stream != stream_) end_.block(stream);
  if (stream == from_) release();
}

void GpuRun::release() {
  std::vector<Body> released;  // they end outside of the lock
  const std::lock_guard lock(mutex_);
  released.swap(kept_);
}

// ---- GpuWork: enqueued

void GpuWork::collect(const std::vector<at::Tensor>& outputs) {
  const std::lock_guard lock(mutex_);
  collecting_ = true;
  outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
}

std::shared_ptr<GpuRun> GpuWork::record(std::shared_ptr<const GpuComm> comm, const c10::Stream& stream,
                                        std::vector<Body>&& bodies) const {
  return std::make_shared<GpuRun>(std::move(comm), *from_, stream, std::move(bodies), deadline_);
}

void GpuWork::enqueued(std::shared_ptr<GpuRun> run) {
  std::function<void()> profiled;
  {
    const std::lock_guard lock(mutex_);
    run_ = std::move(run);
    profiled = std::exchange(recordFunctionEndCallback_, nullptr);
  }
  cv_.notify_all();
  if (profiled) profiled();
}

void GpuWork::set_deadline(milliseconds limit) {
  call_limit_ = limit;
  deadline_ = GpuRun::Clock::now() + limit;
}

std::shared_ptr<GpuRun> GpuWork::run() const {
  const std::lock_guard lock(mutex_);
  return run_;
}

/// Only messages between two ranks are enqueued later, by a thread, while their ranks connect.
void GpuWork::wait_until_enqueued() {
  const auto is_enqueued = [this] { return run_ != nullptr || completed_; };
  {
    const std::lock_guard lock(mutex_);
    if (is_enqueued()) return;
    if (collecting_) {
      C10_THROW_ERROR(DistBackendError,
                      "wait: the call is one of a group of calls that has not ended: wait for the group");
    }
  }
  const WithoutGil without;  // taken again when mutex_ is free: the holder of Python's lock may want mutex_
  std::unique_lock lock(mutex_);
  while (!cv_.wait_for(lock, milliseconds(50), is_enqueued)) {
    lock.unlock();
    check_signals();
    lock.lock();
  }
}

// ---- waits

void GpuWork::synchronize() {
  wait_until_enqueued();
  if (const auto run = this->run()) run->block(current_stream(run->stream().device()));
}

bool GpuWork::wait(milliseconds timeout) {
  wait_until_enqueued();
  if (const auto error = exception()) std::rethrow_exception(error);
  synchronize();
  if (host_waits_ || timeout.count() > 0) wait_on_host(timeout);
  return true;
}

void GpuWork::wait_on_host(milliseconds timeout) {
  {
    const WithoutGil without;
    const auto start = GpuRun::Clock::now();
    for (milliseconds pause{0}; !isCompleted(); pause = std::min(pause + milliseconds(1), milliseconds(10))) {
      check_signals();
      if (timeout.count() > 0 && GpuRun::Clock::now() - start >= timeout) time_out(timeout);
      std::this_thread::sleep_for(pause);
    }
  }
  if (const auto error = exception()) std::rethrow_exception(error);
}

bool GpuWork::isCompleted() {
  if (has_ended()) return true;
  const auto run = this->run();
  return run != nullptr && (run->has_run() || exception() != nullptr);
}

std::exception_ptr GpuWork::exception() const {
  std::shared_ptr<GpuRun> run;
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return exception_;
    run = run_;
  }
  if (run == nullptr) return nullptr;
  return run->comm().failure(call_limit_.count() > 0 ? call_limit_ : group().timeout());
}

/// The future is marked on a stream that has waited for this call and for nothing else.
c10::intrusive_ptr<c10::ivalue::Future> GpuWork::getFuture() {
  wait_until_enqueued();
  if (const auto error = exception()) std::rethrow_exception(error);
  const auto run = this->run();
  const c10::Device device = run->stream().device();
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{device});
  // In a capture only streams that the program joins may take part: the call's own is one.
  const c10::Stream marker = run->is_captured() ? run->stream() : pooled_stream(device);
  run->block(marker);
  const c10::StreamGuard guard(marker);
  future->markCompleted(at::IValue(result()));
  return future;
}

// ---- the end

std::exception_ptr GpuWork::late() const {
  try {
    time_out(call_limit_, "The group was aborted");
  } catch (...) {
    return std::current_exception();
  }
}

void GpuWork::release_resources() {
  outputs_.clear();
  const std::lock_guard lock(mutex_);
  run_.reset();
}

void GpuWork::ended(std::exception_ptr error) {
  if (!has_ended()) complete(std::move(error));
}

}  // namespace tutti_torch
