// A group's calls on tensors of a GPU: gpu_calls.hpp says how they run.
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/convert.hpp"
#include "compat/torch/group.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {

using c10d::OpType;
using std::chrono::milliseconds;
using tutti::check;

namespace {

/// "all_reduce" of "tutti:all_reduce".
const char* call_of(const char* title) { return title + sizeof "tutti:" - 1; }

}  // namespace

void Group::eagerConnectSingleDevice(at::Device device) {
  if (!device.is_cuda()) return;
  try {
    check_usable("init_process_group");
    gpu_->connect("init_process_group", device);
  } catch (...) {
    std::rethrow_exception(as_torch_error(timeout()));
  }
}

WorkPtr Group::run_on_gpu(c10::Device device, const GpuWorkPtr& work, Body body, bool async, milliseconds timeout) {
  gpu_->connect(call_of(work->title()), device);
  if (timeout.count() > 0) work->set_deadline(timeout);
  gpu_->run(work, {std::move(body)}, async);
  last_on_gpu_ = true;
  return work;
}

WorkPtr Group::barrier_of_gpus(c10::Device device, const c10d::BarrierOptions& opts) {
  try {
    check_usable("barrier");
    auto work = c10::make_intrusive<GpuWork>(describe(OpType::BARRIER, "tutti:barrier"), Tensors{}, Tensors{}, true);
    return run_on_gpu(
        device, work, [](const Target& at) { check(tuttiBarrier(at.comm, at.stream)); }, opts.asyncOp, opts.timeout);
  } catch (...) {
    std::rethrow_exception(as_torch_error(timeout()));
  }
}

// ---- several calls as one

GpuWorkPtr Group::collect(c10::Device device, const char* call, const Tensors& outputs, Body body, bool async,
                          milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  if (!coalescing_) return {};
  if (!batch_) {
    batch_ = Batch{c10::make_intrusive<GpuWork>(describe(OpType::COALESCED, "tutti:coalesced"), Tensors{}, Tensors{}),
                   device,
                   call,
                   {},
                   async,
                   kNoTimeout};
  }
  if (batch_->device != device) {
    refuse(call, c10::str("a group of calls has tensors on ", batch_->device, " and on ", device));
  }
  batch_->work->collect(outputs);
  batch_->bodies.push_back(std::move(body));
  batch_->async = batch_->async || async;
  if (timeout > kNoTimeout && (batch_->timeout == kNoTimeout || timeout < batch_->timeout)) batch_->timeout = timeout;
  return batch_->work;
}

/// torch does not end a group that an exception of the program has left. Its calls must not be made with those of the
/// next one.
void Group::startCoalescing() {
  std::optional<Batch> left;
  {
    const std::lock_guard lock(mutex_);
    coalescing_ = true;
    left = std::exchange(batch_, std::nullopt);
    coalesced_.clear();
  }
  if (!left) return;
  try {
    throw tutti::Error(tutti::Code::InvalidUsage,
                       c10::str("rank ", rank_, ": ", left->call, ": the group of calls that it was one of was left ",
                                "without its end, and another one was begun: none of its calls was made"));
  } catch (...) {
    left->work->ended(as_torch_error());
  }
}

WorkPtr Group::endCoalescing() {
  std::optional<Batch> batch;
  std::vector<WorkPtr> parts;
  {
    const std::lock_guard lock(mutex_);
    coalescing_ = false;
    batch = std::exchange(batch_, std::nullopt);
    parts = std::exchange(coalesced_, {});
  }
  if (batch) {
    try {
      gpu_->connect(batch->call, batch->device);
      if (batch->timeout > kNoTimeout) batch->work->set_deadline(batch->timeout);
      gpu_->run(batch->work, std::move(batch->bodies), batch->async);
      last_on_gpu_ = true;
    } catch (...) {
      const auto error = as_torch_error(timeout());
      batch->work->ended(error);
      std::rethrow_exception(error);
    }
    if (parts.empty()) return batch->work;
    parts.push_back(batch->work);
  }
  return c10::make_intrusive<CoalescedWork>(rank_, std::move(parts));
}

// ---- messages between two ranks

WorkPtr Group::message_of_gpus(OpType type, const char* title, Tensors& tensors, int peer, int tag) {
  const char* const call = call_of(title);
  const at::Tensor tensor = tensors.front();
  const bool sends = type == OpType::SEND;
  demand(peer != kAnySource, call, "messages of tensors on a GPU have a source: a receive from any rank is the host's");
  demand(peer != rank_, call, "a rank cannot send to itself");
  demand(
      tag == 0, call,
      "messages of tensors on a GPU have no tag: those between two ranks are received in the order of their sending");
  const auto body = [tensor, sends](int of) {
    return [tensor, sends, of](const Target& at) {
      const Elements elements = moved(tensor.scalar_type());
      Packed data(at, tensor, sends ? Use::In : Use::Out);
      const size_t count = data.count(elements);
      if (sends) {
        check(tuttiSend(data.data(), count, elements.type, of, at.comm, at.stream));
      } else {
        check(tuttiRecv(data.data(), count, elements.type, of, at.comm, at.stream));
        data.unpack();
      }
    };
  };
  try {
    if (auto work = collect(tensor.device(), call, tensors, body(peer), true, kNoTimeout)) return work;
    const auto work = c10::make_intrusive<GpuWork>(describe_message(type, title, tensors, peer, tag), tensors, tensors);
    // Between the two, the sender is rank 0 and the receiver rank 1.
    gpu_->transfer(work, call, tensor.device(), sends ? rank_ : peer, sends ? peer : rank_, body(sends ? 1 : 0));
    return work;
  } catch (...) {
    std::rethrow_exception(as_torch_error(timeout()));
  }
}

}  // namespace tutti_torch
