#include "compat/torch/work.hpp"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "compat/torch/python.hpp"
#include "tutti/error.hpp"

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How often a wait lets Python look for signals.
constexpr milliseconds kSignalsEvery{50};

/// A profiler's event costs an allocation: only where somebody records.
const char* title_of(const Description& description) { return at::hasCallbacks() ? description.title : nullptr; }

/// And so does a copy of the inputs.
std::optional<std::vector<at::Tensor>> shown(const std::vector<at::Tensor>& inputs) {
  if (!at::hasCallbacks()) return std::nullopt;
  return inputs;
}

template <class Thrown>
std::exception_ptr made(const std::string& text) {
  return std::make_exception_ptr(Thrown(c10::SourceLocation{"tutti", __FILE__, __LINE__}, text));
}

std::string text_of(const tutti::Error& error, milliseconds limit) {
  if (error.code() != tutti::Code::Timeout) return error.what();
  if (limit.count() == 0) return c10::str("timed out: ", error.what());
  return c10::str("timed out (a timeout of ", seconds_of(limit), " s is set): ", error.what());
}

}  // namespace

std::exception_ptr as_torch_error(milliseconds limit) {
  try {
    throw;
  } catch (const tutti::Error& error) {
    const std::string text = text_of(error, limit);
    if (error.code() == tutti::Code::InvalidArgument) return made<c10::ValueError>(text);
    if (error.code() == tutti::Code::Unsupported) return made<c10::NotImplementedError>(text);
    return made<c10::DistBackendError>(text);
  } catch (...) {
    return std::current_exception();
  }
}

Work::Work(Description description, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs)
    : c10d::Work(description.rank, description.type, title_of(description), shown(inputs)),
      outputs_(std::move(outputs)),
      description_(std::move(description)) {}

void Work::complete(std::exception_ptr error) {
  if (error == nullptr) group().hooks.completed(getCompletionKey());  // before those who wait go on
  finish(std::move(error));
  c10::intrusive_ptr<c10::ivalue::Future> waiting;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    waiting = future_;
  }
  if (waiting) mark(*waiting);
}

void Work::mark(c10::ivalue::Future& future) const {
  if (exception_ != nullptr) {
    future.setError(exception_);
  } else {
    future.markCompleted(at::IValue(outputs_));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  std::unique_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  auto made = future_;
  const bool done = done_;
  lock.unlock();
  if (done) mark(*made);
  return made;
}

void Work::time_out(milliseconds after, const char* then) const {
  C10_THROW_ERROR(DistBackendError, c10::str("rank ", description_.rank, ": ", description_.title + sizeof "tutti:" - 1,
                                             description_.detail, ", call ", description_.sequence, " of ",
                                             group().name, ", timed out: it has not finished after ", seconds_of(after),
                                             " s. Another rank has not made the matching call, or is slow. ", then));
}

bool Work::has_ended() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

bool Work::wait(milliseconds timeout) {
  if (!has_ended()) {
    // Futures' callbacks may need Python's lock. It is taken again when mutex_ is free: its holder may want mutex_.
    const WithoutGil without;
    std::unique_lock lock(mutex_);
    const milliseconds limit = timeout != kNoTimeout && timeout.count() > 0 ? timeout : limit_;
    const auto start = Clock::now();
    while (!cv_.wait_for(lock, kSignalsEvery, [this] { return completed_; })) {
      lock.unlock();
      check_signals();
      if (limit.count() > 0 && Clock::now() - start >= limit) time_out(limit);
      lock.lock();
    }
  }
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

bool CoalescedWork::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); });
}

bool CoalescedWork::isSuccess() const { return exception() == nullptr; }

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& part : parts_) {
    if (auto error = part->exception()) return error;
  }
  return nullptr;
}

bool CoalescedWork::wait(milliseconds timeout) {
  for (const auto& part : parts_) part->wait(timeout);
  return true;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& part : parts_) {
    for (auto& tensor : part->result()) all.push_back(std::move(tensor));
  }
  return all;
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  const auto left = std::make_shared<std::atomic<size_t>>(parts_.size() + 1);
  const auto self = c10::intrusive_ptr<CoalescedWork>::reclaim_copy(this);
  const auto one_done = [future, left, self](c10::ivalue::Future&) {
    if (left->fetch_sub(1) != 1) return;
    if (const auto error = self->exception()) {
      future->setError(error);
    } else {
      future->markCompleted(at::IValue(self->result()));
    }
  };
  for (const auto& part : parts_) part->getFuture()->addCallback(one_done);
  one_done(*future);
  return future;
}

}  // namespace tutti_torch
