// The backend `tutti` of torch.distributed: one rank of a process group.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compat/torch/gpu_calls.hpp"
#include "compat/torch/point_to_point.hpp"
#include "compat/torch/queue.hpp"

namespace tutti_torch {

class Window;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// Functions that newer versions of PyTorch have and older ones lack are virtual here and override where they can.
#ifdef __clang__
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#endif
// NOLINTBEGIN(modernize-use-override)
class Group : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds time) : c10d::Backend::Options("tutti", time) {}
    c10::intrusive_ptr<c10d::Backend::Options> clone() const;
  };

  /// Returns when all ranks have joined. `name` is for messages: "group '0'".
  Group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name,
        std::chrono::milliseconds timeout);
  ~Group() override;

  const std::string getBackendName() const override { return "tutti"; }  // NOLINT: PyTorch's signature
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions();

  // ---- collectives (collectives.cpp, lists.cpp)
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  virtual WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts);
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  /// Rank 0 throws with the ranks that have not come in time; the group stays usable.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) override;

  // ---- point to point
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // ---- several calls as one
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // ---- the group itself (lifecycle.cpp)
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setSequenceNumberForGroup() override {}
  /// Of calls that wait now and later.
  virtual void setTimeout(std::chrono::milliseconds timeout);
#ifdef TUTTI_TORCH_HOOKS
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override {
    facts_->hooks.add(id, std::move(hook));
  }
  void unregisterCompletionHook(int64_t id) override { facts_->hooks.remove(id); }
#endif
  /// init_process_group(device_id=…): the communicator of the GPUs is made at once.
  virtual void eagerConnectSingleDevice(at::Device device);
  bool supportsSplitting() const override { return true; }
  virtual c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const std::vector<int>& ranks,
                                                  const c10::intrusive_ptr<c10d::Backend::Options>& opts);
  /// As older versions ask, with the group's own store.
  virtual c10::intrusive_ptr<c10d::Backend> split(const std::vector<int>& ranks,
                                                  const c10::intrusive_ptr<c10d::Backend::Options>& opts);
  virtual bool supportsShrinking() const { return true; }
  virtual c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t>& excluded, int flags,
                                                   const c10::intrusive_ptr<c10d::Backend::Options>& opts);
  void abort() override;
  /// Waits for all operations and leaves; throws what was still found to differ.
  void shutdown() override;
  c10d::ErrorType getError() override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;  // NOLINT: PyTorch's type

  /// How often each way of delivery was used, and by how many calls, since the group was made: "mapped" → 12, …
  std::map<std::string, uint64_t> deliveries();
  /// From now on each call is counted: some 100 ns.
  void count_deliveries(bool on) { counting_ = on; }
  tuttiCallInfo last_call();

  // ---- windows (window.hpp)
  /// The communicator of the host, once all that was queued has run. `call` is for the error of a group that was shut
  /// down.
  tuttiComm_t in_turn(const char* call);
  /// Until it is closed, or the group has left.
  void hold(std::shared_ptr<Window> window);
  void release(const Window* window);
  /// A window that is held, and that no rank closes by itself …
  void share(const Window* window);
  /// … but all together here, once none has it any more. All ranks call it, at the same place among their calls.
  void close_unused();
  /// The communicator of the host, also while calls on it are queued.
  tuttiComm_t communicator(const char* call) const;
  bool idle() const { return queue_.idle(); }
  bool has_left() const { return left_; }
  std::chrono::milliseconds timeout() const { return facts_->timeout(); }

 private:
  /// On tensors of the host: queues `body`, or runs it here if the caller waits for it anyway. On those of a GPU:
  /// enqueues it. `Options`: its time-out, and whether the caller waits.
  template <class Options>
  WorkPtr run(c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs, const Options& options,
              Body body) {
    return run(type, title, inputs, std::move(outputs), options.asyncOp, options.timeout, std::move(body));
  }
  WorkPtr run(c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs, bool async,
              std::chrono::milliseconds timeout, Body body);
  WorkPtr run_on_host(c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs, bool async,
                      std::chrono::milliseconds timeout, const Body& body);
  /// `host_waits`: waits for the work make the host wait too.
  WorkPtr run_on_gpu(c10::Device device, const GpuWorkPtr& work, Body body, bool async,
                     std::chrono::milliseconds timeout);
  WorkPtr barrier_of_gpus(c10::Device device, const c10d::BarrierOptions& opts);
  /// Adds a call to those that endCoalescing enqueues as one. `timeout`: the call's own; they all get the shortest.
  GpuWorkPtr collect(c10::Device device, const char* call, const Tensors& outputs, Body body, bool async,
                     std::chrono::milliseconds timeout);
  /// `task` with a time-out of its own.
  Task within(std::chrono::milliseconds limit, Task task);
  Description describe(c10d::OpType type, const char* title, std::string detail = "");
  /// The operation of one message to or from `peer`.
  c10::intrusive_ptr<Work> message(c10d::OpType type, const char* title, const Tensors& tensors, int peer, int tag);
  void check_message(c10d::OpType type, const Tensors& tensors, int peer);
  WorkPtr message_of_gpus(c10d::OpType type, const char* title, Tensors& tensors, int peer, int tag);
  Description describe_message(c10d::OpType type, const char* title, const Tensors& tensors, int peer, int tag);
  WorkPtr coalesced(WorkPtr work);
  void check_usable(const char* call) const;
  void count_delivery();
  /// A rank's part in the monitored barrier, and rank 0's.
  void pass(c10d::Store& store);
  void monitor(c10d::Store& store, std::chrono::milliseconds limit, bool wait_for_all);

  c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<GroupFacts> facts_;
  tuttiComm_t comm_ = nullptr;
  Queue queue_;
  std::optional<PointToPoint> point_to_point_;
  std::optional<GpuCalls> gpu_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<bool> counting_{false}, left_{false}, last_on_gpu_{false};
  uint64_t barriers_ = 0, children_ = 0;
  mutable std::mutex mutex_;  // of what follows
  bool coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
  /// Of GPUs: the calls that are collected, and the work that stands for them all.
  struct Batch {
    GpuWorkPtr work;
    c10::Device device;
    const char* call;
    std::vector<Body> bodies;
    bool async;
    std::chrono::milliseconds timeout;  ///< 0: the group's
  };
  std::optional<Batch> batch_;
  std::map<std::string, uint64_t> deliveries_;
  std::map<const Window*, std::shared_ptr<Window>> windows_;  // that are open
  std::vector<const Window*> shared_;                         // in the order of their making, the same on all ranks
};

// NOLINTEND(modernize-use-override)

/// At the program's end: leaves all groups that are not destroyed; aborts them first if the program has failed.
void end_all(bool failed);

}  // namespace tutti_torch
