// What a call on memory of a GPU returns. It is enqueued when the caller has it, and runs when its stream comes there:
// `wait` makes the caller's current stream wait, and not the host.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compat/torch/target.hpp"
#include "compat/torch/work.hpp"

namespace tutti_torch {

/// A communicator of a group's GPU. Works ask it for errors, also when the group is gone.
class GpuComm {
 public:
  explicit GpuComm(tuttiComm_t comm) : comm_(comm) {}
  GpuComm(const GpuComm&) = delete;
  GpuComm& operator=(const GpuComm&) = delete;
  ~GpuComm();

  /// Valid until `leave`.
  tuttiComm_t get() const { return comm_; }
  tuttiResult_t state() const;
  /// Null, or why it has failed, as Python is to see it; `limit`: of the call that asks.
  std::exception_ptr failure(std::chrono::milliseconds limit) const;
  void abort();
  void set_timeout(double seconds);
  /// Waits for the last calls and leaves. Throws what tuttiCommDestroy reports.
  void leave();

 private:
  tuttiResult_t state_now() const;  // under the lock

  mutable std::mutex mutex_;
  tuttiComm_t comm_;
  std::optional<tutti::Error> failed_;  // of what has been left
};

/// What has been enqueued for a call. It outlives a work that the program drops without waiting for it.
class GpuRun {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Progress { Runs, Ran, Late };

  /// Records the end on `stream`. `from`: the caller's stream when it made the call. `kept` holds the call's tensors;
  /// it is not moved from if this throws.
  GpuRun(std::shared_ptr<const GpuComm> comm, const c10::Stream& from, const c10::Stream& stream,
         std::vector<Body>&& kept, Clock::time_point deadline);

  const GpuComm& comm() const { return *comm_; }
  const c10::Stream& stream() const { return stream_; }
  /// A call in a graph cannot be watched.
  bool is_captured() const { return captured_; }
  /// Throws what the GPU reports, as `progress`.
  bool has_run() const { return captured_ || end_.query(); }
  Progress progress() const;
  /// The stream waits for the call. If it is the caller's, what uses the tensors' memory next comes after the call.
  void block(const c10::Stream& stream);
  /// Nothing that was enqueued uses the tensors any more.
  void release();

 private:
  const std::shared_ptr<const GpuComm> comm_;
  const c10::Stream from_, stream_;
  const bool captured_;
  const Clock::time_point deadline_;
  c10::Event end_;
  std::mutex mutex_;
  std::vector<Body> kept_;
};

class GpuWork : public Work {
 public:
  /// `host_waits`: `wait` makes the host wait too (a barrier).
  GpuWork(Description description, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs,
          bool host_waits = false)
      : Work(std::move(description), inputs, std::move(outputs)), host_waits_(host_waits) {}

  /// Throws if the group has failed. `timeout` not 0: the host waits too, and after that time it throws.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  /// The current stream waits for the call.
  void synchronize() override;
  /// It has run, has failed, or is captured in a graph, of which nothing is known here.
  bool isCompleted() override;
  bool isSuccess() const override { return exception() == nullptr; }
  std::exception_ptr exception() const override;
  /// Completed at once: who reads the result waits on its current stream.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  /// Called when nobody has the work any more, though the watching thread may still look whether it is there.
  void release_resources() override;

  // ---- for those who enqueue it

  /// More calls are to be enqueued with it: until then nobody can wait.
  void collect(const std::vector<at::Tensor>& outputs);
  /// The caller's stream when it made the call.
  void made_on(const c10::Stream& stream) { from_ = stream; }
  /// What is to be watched of calls that have been enqueued on `stream`. If it throws, it has not moved from `bodies`.
  std::shared_ptr<GpuRun> record(std::shared_ptr<const GpuComm> comm, const c10::Stream& stream,
                                 std::vector<Body>&& bodies) const;
  /// All of them have been.
  void enqueued(std::shared_ptr<GpuRun> run);
  /// After this time it has failed; 0: the group's time-out alone counts.
  void set_deadline(std::chrono::milliseconds limit);

  // ---- for the thread that watches

  /// The error of a call that its own time-out has ended.
  std::exception_ptr late() const;
  void ended(std::exception_ptr error);

 private:
  void wait_until_enqueued();
  void wait_on_host(std::chrono::milliseconds timeout);
  /// Null before it has been enqueued.
  std::shared_ptr<GpuRun> run() const;

  const bool host_waits_;
  bool collecting_ = false;  // guarded by mutex_, as what follows
  std::shared_ptr<GpuRun> run_;
  std::optional<c10::Stream> from_;
  std::chrono::milliseconds call_limit_{0};
  GpuRun::Clock::time_point deadline_ = GpuRun::Clock::time_point::max();
};

}  // namespace tutti_torch
