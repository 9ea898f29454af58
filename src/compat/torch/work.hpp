// What a call on a group returns: waits, exceptions and futures of one operation.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "compat/torch/hooks.hpp"

namespace tutti_torch {

inline double seconds_of(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

/// What a group and its operations share; it outlives the group while one of them does.
struct GroupFacts {
  const std::string name;           ///< in messages: "group '0' (default_pg)"
  std::atomic<int64_t> timeout_ms;  ///< of calls that wait
  Hooks hooks;

  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeout_ms); }
};

/// What messages, profilers and waits say of an operation.
struct Description {
  int rank;
  c10d::OpType type;
  const char* title;  ///< "tutti:all_reduce"
  uint64_t sequence;  ///< among the group's operations, from 1
  std::shared_ptr<GroupFacts> group;
  std::string detail;  ///< "(…)": of a message, its peer and tag; may be empty
};

/// One operation. It is completed by the thread that ran it; any threads may wait.
// NOLINTBEGIN(modernize-use-override): as in group.hpp
#ifdef __clang__
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#endif
class Work : public c10d::Work {
 public:
  /// `inputs` are what a profiler's event shows.
  Work(Description description, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs);

  /// Throws the operation's error. `timeout` not 0: after that time it throws an error, and the operation goes on.
  /// Python's signal handlers run while it waits: so Ctrl-C ends a wait.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  int sourceRank() const override { return source_; }
  uint64_t getSequencenumber() const override { return description_.sequence; }
  virtual uint64_t getCompletionKey() const { return description_.sequence; }
  void synchronize() override {}

  /// Called once, by the thread that ran the operation.
  void complete(std::exception_ptr error = nullptr);
  /// Before `complete`: the sender of a message from any rank.
  void set_source(int rank) { source_ = rank; }
  /// After `limit` without completion `wait` throws, even where it was given no time.
  void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }
  GroupFacts& group() const { return *description_.group; }
  const char* title() const { return description_.title; }
  /// `complete` has been called.
  bool has_ended() const;

 protected:
  /// Throws: "… timed out: it has not finished after … s". `then`: what becomes of the call.
  [[noreturn]] void time_out(std::chrono::milliseconds after,
                             const char* then = "The call still runs; abort() of the group would end it") const;

  std::vector<at::Tensor> outputs_;

 private:
  void mark(c10::ivalue::Future& future) const;

  const Description description_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool done_ = false;
  int source_ = -1;
  std::chrono::milliseconds limit_{0};
};

// NOLINTEND(modernize-use-override)

/// Several operations as one: startCoalescing … endCoalescing.
class CoalescedWork : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> parts)
      : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  void synchronize() override {}

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

/// The current exception as Python is to see it: wrong arguments as ValueError, what is not supported as
/// NotImplementedError, everything else as DistBackendError (a RuntimeError). A time-out says "timed out" and the limit
/// of the call, if that is known.
std::exception_ptr as_torch_error(std::chrono::milliseconds limit = {});

}  // namespace tutti_torch
