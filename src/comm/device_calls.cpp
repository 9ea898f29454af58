#include "comm/device_calls.hpp"

#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "plan/plan.hpp"
#include "select/blocks.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {

void EnqueuedCalls::add(uint64_t board_number, const CallSpec& spec, const Prepared& prepared) {
  const std::lock_guard lock(mutex_);
  Entry& entry = (prepared.execution->program().by == exec::RunBy::CopyEngines ? copies_ : kernels_).next();
  entry.board_number = board_number;
  entry.spec = spec;
  entry.algorithm = prepared.algorithm;
  entry.group.clear();
}

void EnqueuedCalls::add(const std::vector<NumberedCall>& group, const char* algorithm) {
  const std::lock_guard lock(mutex_);
  kernels_.next() = {0, group.front().call.spec, algorithm, group};
}

/// A replayed call has a number that none was enqueued under: then the last one is meant, as far as is known.
const EnqueuedCalls::Entry& EnqueuedCalls::Sequence::at(uint64_t number) const {
  const bool known = number >= 1 && number <= count && number + last.size() > count;
  return last[((known ? number : std::max<uint64_t>(1, count)) - 1) % last.size()];
}

const EnqueuedCalls::Entry& EnqueuedCalls::entry(uint64_t device_number) const {
  const bool copied = (device_number & exec::kCopiedCall) != 0;
  return copied ? copies_.at(device_number & ~exec::kCopiedCall) : kernels_.at(device_number);
}

void EnqueuedCalls::describe(uint64_t device_number) {
  if (described_ == device_number) return;  // what its peers have answered is kept
  described_ = device_number;
  const Entry& call = entry(device_number);
  described_group_ = call.group;
  if (!described_group_.empty()) return diagnostics_.begin(described_group_);
  diagnostics_.begin(call.board_number, call.spec);
  diagnostics_.set_algorithm(call.algorithm);
}

Status EnqueuedCalls::fault(const exec::Fault& fault) {
  const std::lock_guard lock(mutex_);
  describe(fault.call);
  if (fault.kind != exec::FaultKind::TwoAtOnce) return diagnostics_.fault(fault);
  return diagnostics_.fail(
      Code::InvalidUsage,
      fmt::format("two calls of the communicator ran on the device at the same time: {} and {}; order the streams or "
                  "graphs that make them",
                  tutti::comm::describe(entry(fault.call).spec), tutti::comm::describe(entry(fault.other).spec)));
}

Status EnqueuedCalls::stalled(const exec::Stall& stall) {
  const std::lock_guard lock(mutex_);
  describe(stall.call);
  return diagnostics_.stalled(stall);
}

void EnqueuedCalls::cut_off(const exec::Stall& stall) {
  const std::lock_guard lock(mutex_);
  describe(stall.call);
  cut_off_->set(diagnostics_.cut_off_by_failure(stall));
}

void EnqueuedCalls::device_failed(const std::string& why, const exec::Stall& stall) {
  const std::lock_guard lock(mutex_);
  describe(stall.call);
  diagnostics_.device_failed(why, stall);
}

Status EnqueuedCalls::failed() {
  const std::lock_guard lock(mutex_);
  return diagnostics_.failed();
}

void EnqueuedCalls::network_failed(const Status& status, uint64_t device_number) {
  const std::lock_guard lock(mutex_);
  describe(device_number);
  (void)diagnostics_.link_failed(status.code, status.text);
}

namespace {

bool has_other_hosts(const control::Endpoint& endpoint) {
  const std::string& mine = endpoint.process_id(endpoint.rank()).host;
  bool others = false;
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) others = others || endpoint.process_id(peer).host != mine;
  return others;
}

/// Links between hosts: the two proxies take part in every message.
select::LinkCost through_proxies(const select::LinkCost& network) {
  const double proxy = machine_constants().cuda_proxy;
  return {network.alpha + 2 * proxy, std::max(network.beta, machine_constants().cuda_beta), proxy};
}

}  // namespace

DeviceCalls::DeviceCalls(control::Endpoint& endpoint, Fabric& fabric, const CallBoard& board, std::string title,
                         const Timeouts& timeouts, int device, const exec::Backoff& backoff,
                         std::shared_ptr<CutOffCall> cut_off)
    : endpoint_(endpoint),
      enqueued_(endpoint, board, std::move(title), timeouts, std::move(cut_off)),
      network_(has_other_hosts(endpoint)
                   ? std::make_unique<DeviceNetwork>(endpoint, fabric, enqueued_, timeouts.of_init())
                   : nullptr),
      executor_(device_module()->make({.wireup = &endpoint,
                                       .failed = &endpoint.failed(),
                                       .observer = &enqueued_,
                                       .network = network_.get(),
                                       .backoff = &backoff,
                                       .device = device})),
      planner_(endpoint.rank(), endpoint.ranks(), *executor_, backoff) {}

/// Are two ranks of one group (or, not `inside`, of two) on different hosts? Without two levels all are one group.
bool DeviceCalls::meet_hosts(const plan::Grouping& groups, bool inside) const {
  const bool levels = groups.has_two_levels();
  for (Rank a = 0; a < endpoint_.ranks(); ++a) {
    for (Rank b = 0; b < a; ++b) {
      const bool together = !levels || groups.group_of(a) == groups.group_of(b);
      if (together == inside && endpoint_.process_id(a).host != endpoint_.process_id(b).host) return true;
    }
  }
  return false;
}

void DeviceCalls::agree(const Agreement& agreed, const Groups& groups, uint32_t sharers, bool all_whole) {
  executor_->share_device(sharers);
  setting_ = agreed.setting;
  select::Setting& setting = setting_;
  const uint64_t message = executor_->transport().longest_message();
  const double alpha = machine_constants().cuda_alpha;
  const select::LinkCost near{alpha, machine_constants().cuda_beta, machine_constants().cuda_message};
  setting.inside = meet_hosts(*groups, true) ? through_proxies(agreed.setting.inside) : near;
  setting.between = meet_hosts(*groups, false) ? through_proxies(agreed.setting.between) : near;
  setting.gamma = machine_constants().cuda_fold_gamma;
  setting.oversubscription = 1;
  setting.staging = uint64_t{1} << 40;  // messages are pushed to slots of the link
  setting.message = message;
  setting.profile = nullptr;
  // Replicas have no links in lines.
  const bool all_in_lines = env().cuda_wire == CudaWire::Lines || env().cuda_wire == CudaWire::WholeLines;
  const uint32_t threads = all_in_lines ? 1 : static_cast<uint32_t>(env().max_blocks);
  AgreedCapabilities capabilities{
      .staging = setting.staging, .message = message, .threads = threads, .shares_staging = false};
  agree_on_others(capabilities);
  select::LineLengths longest;
  if (network_ == nullptr && endpoint_.ranks() > 1) {  // messages to other hosts travel in slots
    const link::Access can = executor_->transport().capabilities(endpoint_.rank() == 0 ? 1 : 0, {}).out;
    longest = {can.line_bytes, all_whole ? can.whole_line_bytes : 0};
  }
  const auto blocks = [this, groups, threads, longest](const select::Choice& choice, uint64_t bytes) {
    const plan::Cost cost = choice.algorithm->cost({choice.algorithm->collective, endpoint_.ranks(), groups});
    return select::fewest_blocks(cost, bytes, choice.window, setting_, longest, threads);
  };
  planner_.agree(select::DecisionTable(setting), capabilities, groups, blocks);
}

/// Which collectives others than lanes run: none, if nobody asks for it.
void DeviceCalls::agree_on_others(AgreedCapabilities& capabilities) const {
  if (endpoint_.ranks() == 1) return;
  if (env().cuda_wire == CudaWire::Copy) {
    capabilities.copied_round = executor_->copied_round();
    if (capabilities.copied_round == 0) {
      throw_error(Code::Unsupported,
                  "TUTTI_CUDA_WIRE=copy: the copy engines move blocks between GPUs of one host, and "
                  "the ranks are of several; unset it");
    }
    capabilities.copied = run_by("copy", &plan::Algorithm::copies);
  }
  if (env().cuda_wire == CudaWire::Multimem) {
    const auto algorithms = run_by("multimem", &plan::Algorithm::switched);
    if (algorithms.empty()) {
      throw_error(Code::Unsupported, "TUTTI_PLAN gives another plan than TUTTI_CUDA_WIRE=multimem runs; unset one");
    }
    capabilities.switched = algorithms.front();
    capabilities.switched_window = executor_->switched_window();
    capabilities.folds_in_switch = [this](const exec::Reduction& how) { return executor_->folds_in_switch(how); };
  }
}

/// The algorithms of this kind, but those of collectives for which TUTTI_PLAN gives a plan.
std::vector<const plan::Algorithm*> DeviceCalls::run_by(const char* wire, bool plan::Algorithm::*kind) const {
  std::vector<const plan::Algorithm*> all;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const auto demanded = setting_.forced.find(name_of(collective));
    for (const plan::Algorithm* algorithm : plan::algorithms_of(collective)) {
      if (!(algorithm->*kind) || setting_.given.contains(collective)) continue;
      if (demanded != setting_.forced.end() && demanded->second != algorithm->name) {
        throw_error(Code::Unsupported, "TUTTI_ALGO forces {}:{}, and TUTTI_CUDA_WIRE={} runs {} alone; unset one",
                    name_of(collective), demanded->second, wire, algorithm->name);
      }
      all.push_back(algorithm);
    }
  }
  return all;
}

void DeviceCalls::check(const Call& call, Rank rank, Rank ranks) const {
  const auto bad = [&](const std::string& why) {
    throw_error(Code::InvalidArgument, "rank {}: {}: {}", rank, describe(call.spec), why);
  };
  const uint64_t unit = size_of(call.spec.type);
  const auto check_extent = [&](const void* data, uint64_t bytes, const char* what) {
    const exec::Pointer at = device_module()->look_up(data);
    const auto begin = reinterpret_cast<uint64_t>(data);
    if (at.kind != exec::Pointer::Kind::Device) bad(fmt::format("{} is no memory of a device, or was freed", what));
    if (at.device != device()) {
      bad(fmt::format("{} lies on device {}, but this rank uses {}", what, at.device, executor_->device_name()));
    }
    if (begin % unit != 0) bad(fmt::format("{} is not aligned to its elements of {} bytes", what, unit));
    if (begin - at.begin > at.bytes || bytes > at.bytes - (begin - at.begin)) {
      bad(fmt::format("{} has {} bytes, and its allocation ends after {}", what, bytes, at.bytes - (begin - at.begin)));
    }
  };
  const auto check_buffer = [&](const void* data, plan::Buffer buffer, const char* what) {
    if (data == nullptr) return;
    const bool transfer = call.spec.collective == Collective::SendRecv;
    const uint64_t blocks =
        transfer ? 1 : plan::blocks(call.spec.collective, ranks, buffer, rank == call.spec.root ? 0 : 1);
    check_extent(data, call.spec.is_vector ? 0 : blocks * call.spec.count * unit, what);
  };
  check_buffer(call.in, plan::Buffer::Input, "the input (sendbuff)");
  check_buffer(call.out, plan::Buffer::Output, "the output (recvbuff)");
  if (call.scale_on_device) {
    const void* scalar = nullptr;
    std::memcpy(&scalar, call.scale, sizeof scalar);
    check_extent(scalar, unit, "the operator's scalar");
  }
  try {
    executor_->check_stream(call.stream);
  } catch (const Error& error) {
    throw_error(error.code(), "rank {}: {}: {}", rank, describe(call.spec), error.what());
  }
}

}  // namespace tutti::comm
