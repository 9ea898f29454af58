// The communicator's part of calls on device memory: they are enqueued on the user's stream, and do not wait.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/topology.hpp"
#include "comm/vector_calls.hpp"
#include "exec/method.hpp"
#include "transports/pod_text.hpp"

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
    detail::devices_used_by.store(process_generation(), std::memory_order_relaxed);
  } catch (const Error& error) {
    no_device_ = error.what();
  }
}

DeviceReport Communicator::device_report() const {
  if (device_calls_ == nullptr) return {.why_not = no_device_};
  const exec::DeviceExecutor& executor = device_calls_->executor();
  return {.id = executor.device_id(),
          .blocks = executor.resident_blocks(),
          .joined = executor.joined_devices(),
          .why_no_nvls = executor.why_no_nvls(),
          .address = executor.device_address(),
          .kind = endpoint_->ranks() > 1 ? kind_with_gpus() : 0,
          .model = executor.device_model(),
          .driver = executor.driver_version()};
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
  const auto says = [&](Rank one, Rank of) {
    const std::vector<std::string>& joined = agreed.reports[static_cast<size_t>(one)].device.joined;
    const std::string& id = agreed.reports[static_cast<size_t>(of)].device.id;
    return std::find(joined.begin(), joined.end(), id) != joined.end();
  };
  bool all_whole = true;
  for (Rank one = 0; one < ranks(); ++one) {
    for (Rank of = 0; of < ranks(); ++of) all_whole = all_whole && says(one, of);
  }
  std::vector<bool> whole;
  for (Rank peer = 0; peer < ranks(); ++peer) whole.push_back(says(rank(), peer) && says(peer, rank()));
  device_calls_->executor().keep_lines_whole(std::move(whole));
  device_calls_->take_reports(agreed.reports);
  const std::string why_no_nvls = agree_on_nvls(agreed, sharers.size() < static_cast<size_t>(ranks()));
  device_calls_->agree(agreed, groups_, sharers[device_calls_->executor().device_id()], all_whole, why_no_nvls,
                       Deadline::in(timeouts_.of_init()));
}

/// Why no switch between the ranks' devices can fold; "": as far as they know, one can.
std::string Communicator::why_no_nvls(const Agreement& agreed, bool some_share) const {
  for (Rank peer = 0; peer < ranks(); ++peer) {
    const std::string& why = agreed.reports[static_cast<size_t>(peer)].device.why_no_nvls;
    if (!why.empty()) return fmt::format("rank {}: {}", peer, transports::printable_reply(why));
    if (endpoint_->process_id(peer).host != endpoint_->process_id(0).host) return "the ranks are of several hosts";
  }
  return some_share ? "several ranks share a GPU" : "";
}

/// The switch between the ranks' devices, if it is asked for, or if the profile has times of it. Returns why there can
/// be none. Throws Error(Unsupported) where it is asked for.
std::string Communicator::agree_on_nvls(const Agreement& agreed, bool some_share) {
  const bool forced = std::any_of(agreed.inputs.forced_methods.begin(), agreed.inputs.forced_methods.end(),
                                  [](const auto& one) { return one.second == exec::methods::nvls.name; });
  if (ranks() == 1) return "there is nobody to fold with";
  const bool measured = device_calls_->has_times_of_nvls();
  std::string why = why_no_nvls(agreed, some_share);
  if (why.empty() && (forced || measured)) why = make_nvls();
  if (measured && !forced && !why.empty() && rank() == 0) {
    log_warn("the profile has times of nvls, which cannot be used: {}", why);
  }
  if (forced && !why.empty()) throw_error(Code::Unsupported, "TUTTI_METHOD forces nvls: {}; unset it", why);
  return why;
}

/// Collective. Returns the reason if a rank cannot; then there is none.
std::string Communicator::make_nvls() {
  const auto on_all = [&](auto step) {
    std::string why;
    try {
      step(device_calls_->executor());
    } catch (const std::exception& error) {
      why = error.what();
    }
    const auto all = endpoint_->exchange(why, Deadline::in(timeouts_.of_init()));
    for (size_t peer = 0; peer < all.size(); ++peer) {
      if (!all[peer].empty()) return fmt::format("rank {}: {}", peer, transports::printable_reply(all[peer]));
    }
    return std::string();
  };
  std::string why =
      on_all([&](exec::DeviceExecutor& executor) { executor.join_nvls(Deadline::in(timeouts_.of_init())); });
  if (why.empty()) why = on_all([](exec::DeviceExecutor& executor) { executor.bind_nvls(); });
  if (!why.empty()) device_calls_->executor().drop_nvls();
  return why;
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
    return diagnostics_.fail(error.code(),
                             fmt::format("rank {}: {}: {}", rank(), describe(work.front().spec), error.what()));
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
  if (*current_->row.method == exec::methods::copy_engine) board_->uncount();
  device.enqueued().add(calls_, call.spec, *current_);
  device.executor().launch(*current_->execution, binding);
  if (device.executor().has_captured()) board_->repeat();
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
