// The communicator's part of calls on device memory: they are enqueued on the user's stream, and do not wait.
#include <map>
#include <utility>

#include "base/format.hpp"
#include "base/hash.hpp"
#include "comm/communicator.hpp"
#include "comm/vector_calls.hpp"

namespace tutti::comm {

void Communicator::wire_up_device(int device) {
  if (device == kNoDevice) {
    exec::DeviceModule* const module = device_module();
    no_device_ = module == nullptr ? "the module cuda is not installed (`tutti info` says why)"
                                   : "no GPU was current (cudaSetDevice) when the communicator was made";
    return;
  }
  try {
    device_calls_ =
        std::make_unique<DeviceCalls>(*endpoint_, *fabric_, *board_, title(), timeouts_, device, backoff_, cut_off_);
    detail::devices_in_use.store(true, std::memory_order_relaxed);
  } catch (const Error& error) {
    no_device_ = error.what();
  }
}

DeviceReport Communicator::device_report() const {
  if (device_calls_ == nullptr) return {.why_not = no_device_};
  const exec::DeviceExecutor& executor = device_calls_->executor();
  return {.id = executor.device_id(), .blocks = executor.resident_blocks()};
}

/// All ranks must have a device, and all that share one must run on it at the same time, as they wait for each other.
/// Else each rank refuses such calls, and says which rank cannot make them.
void Communicator::agree_on_device(const Agreement& agreed) {
  const auto refuse = [this](const std::string& why) {
    no_device_ = why;
    device_calls_.reset();
  };
  std::map<std::string, uint32_t> sharers;  // by device: no other in the world has its id
  for (size_t peer = 0; peer < agreed.reports.size(); ++peer) {
    const std::string& why_not = agreed.reports[peer].device.why_not;
    if (!why_not.empty()) return refuse(fmt::format("rank {} has no device: {}", peer, why_not));
    ++sharers[agreed.reports[peer].device.id];
  }
  for (size_t peer = 0; peer < agreed.reports.size(); ++peer) {
    const uint32_t ranks = sharers[agreed.reports[peer].device.id];
    if (agreed.reports[peer].device.blocks >= ranks) continue;
    return refuse(
        fmt::format("{} ranks share the GPU of rank {}, which runs {} of their blocks at the same time: lower "
                    "TUTTI_BLOCK_THREADS, or use more GPUs",
                    ranks, peer, agreed.reports[peer].device.blocks));
  }
  device_calls_->agree(agreed, groups_, sharers[device_calls_->executor().device_id()]);
}

DeviceCalls& Communicator::device_calls() const {
  if (device_calls_ != nullptr) return *device_calls_;
  throw_error(Code::Unsupported, "rank {}: calls on device memory cannot be made on {}: {}", rank(), title(),
              no_device_);
}

Status Communicator::enqueue_on_device(Work work) {
  try {
    if (work.front().spec.collective == Collective::SendRecv) return enqueue_transfers(work);
    enqueue_collective(work.front());
    return {};
  } catch (const Error& error) {
    return diagnostics_.fail(error.code(), fmt::format("rank {}: {}", rank(), error.what()));
  } catch (const std::exception& error) {
    return diagnostics_.fail(Code::OutOfMemory, error.what());
  }
}

void Communicator::enqueue_collective(const Call& call) {
  DeviceCalls& device = device_calls();
  board_->enter(++calls_, call.spec);
  ++enqueued_;
  exec::Binding binding{.scale = call.spec.op == Op::PreMulSum ? call.scale : nullptr,
                        .scale_on_device = call.scale_on_device,
                        .stream = call.stream};
  if (call.spec.is_vector) {
    board_->enter_blocks(calls_, call.blocks);
    current_ = &device.planner().vector(call);
    const OwnBlock own = own_block(call, rank());
    if (own.bytes > 0) device.executor().copy(own.to, own.from, own.bytes, call.stream);
  } else {
    current_ = device.planner().collective(call).program;
    binding.in = call.in;
    binding.out = call.out;
  }
  binding.tag = current_->salt & link::kTagMask;
  current_on_device_ = true;
  device.enqueued().add(calls_, call.spec, current_->algorithm);
  device.executor().launch(*current_->execution, binding);
  board_->leave(calls_);
}

/// The transfers of a group run on the first one's stream; the others' streams wait for them.
Status Communicator::enqueue_transfers(Work work) {
  DeviceCalls& device = device_calls();
  exec::DeviceExecutor& executor = device.executor();
  void* const stream = work.front().stream;
  for (const Call& call : work) {
    if (call.memory != exec::MemoryKind::Device) {
      return {Code::InvalidUsage,
              fmt::format("rank {}: the transfers of one group lie in host memory and in memory of a "
                          "device: make two groups of them",
                          rank())};
    }
    if (call.stream != stream) executor.order(call.stream, stream);
  }
  Status status =
      copy_to_self(work, [&](void* to, const void* from, size_t bytes) { executor.copy(to, from, bytes, stream); });
  if (!status.ok()) return status;
  enter_transfers(work);
  if (!group_.empty()) {
    current_ = &device.planner().transfers(group_);
    current_on_device_ = true;
    device.enqueued().add(group_, current_->algorithm);
    executor.launch(*current_->execution, {.stream = stream, .numbered = false});
  }
  for (const Call& call : work) {
    if (call.stream != stream) executor.order(stream, call.stream);
  }
  return {};
}

}  // namespace tutti::comm
