#include "comm/device_calls.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "comm/topology.hpp"
#include "exec/method.hpp"
#include "plan/plan.hpp"
#include "select/forced.hpp"
#include "select/gpus.hpp"
#include "topo/constants.hpp"
#include "topo/detect.hpp"
#include "transports/pod_text.hpp"

namespace tutti::comm {

void EnqueuedCalls::add(uint64_t board_number, const CallSpec& spec, const Prepared& prepared) {
  const std::lock_guard lock(mutex_);
  Entry& entry = (*prepared.row.method == exec::methods::copy_engine ? copies_ : kernels_).next();
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

select::MeasuredGpus gpus_of(const std::vector<RankReport>& reports) {
  std::set<std::string> models;
  for (const RankReport& report : reports) models.insert(report.device.model);
  return {.models = {models.begin(), models.end()}, .driver = reports.front().device.driver};
}

uint64_t count_devices(const std::vector<RankReport>& reports) {
  std::set<std::string> devices;
  for (const RankReport& report : reports) devices.insert(report.device.id);
  return devices.size();
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
      planner_(endpoint.rank(), endpoint.ranks(), *executor_) {}

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

void DeviceCalls::take_reports(const std::vector<RankReport>& reports) {
  gpus_ = gpus_of(reports);
  profile_ = select::profile_for(gpus_);
}

bool DeviceCalls::has_times_of_nvls() const {
  if (profile_ == nullptr) return false;
  const std::string ranks = counted(static_cast<uint64_t>(endpoint_.ranks()), "rank") + " ";
  for (const auto& [situation, collectives] : profile_->measured) {
    if (!select::is_on_gpus(situation) || !situation.starts_with(ranks)) continue;
    for (const auto& [collective, times] : collectives) {
      const auto is_nvls = [](const auto& one) {
        return one.first.ends_with(select::candidate_name("", exec::methods::nvls));
      };
      if (std::any_of(times.begin(), times.end(), is_nvls)) return true;
    }
  }
  return false;
}

void DeviceCalls::agree(const Agreement& agreed, const Groups& groups, uint32_t sharers, bool all_whole,
                        const std::string& why_no_nvls, Deadline deadline) {
  executor_->share_device(sharers);
  inputs_ = agreed.inputs;
  select::CostInputs& inputs = inputs_;
  const double alpha = machine_constants().cuda_alpha;
  const select::LinkCost near{alpha, machine_constants().cuda_beta, machine_constants().cuda_message};
  inputs.inside = meet_hosts(*groups, true) ? through_proxies(agreed.inputs.inside) : near;
  inputs.between = meet_hosts(*groups, false) ? through_proxies(agreed.inputs.between) : near;
  inputs.gamma = machine_constants().cuda_fold_gamma;
  inputs.oversubscription = 1;
  inputs.staging = uint64_t{1} << 40;  // messages are pushed to slots of the link
  inputs.message = executor_->transport().longest_message();
  inputs.profile = profile_;
  inputs.max_width = static_cast<uint32_t>(env().max_blocks);
  inputs.shares_staging = false;
  inputs.view = nullptr;  // that of host memory, as the order is
  inputs.order = select::parse_order(env().order, inputs.ranks).value_or(plan::RankOrder());
  inputs.methods = usable_methods(all_whole, why_no_nvls);
  if (inputs.ranks == 1) return planner_.agree(select::DecisionTable(inputs), groups);
  const topo::Graph graph = make_graph(agreed, groups, deadline);
  if (!graph.ranks.empty()) {
    select::MachineInputs made = select::inputs_of(graph, inputs.ranks, groups);
    inputs.inside = made.inputs.inside;
    inputs.between = made.inputs.between;
    inputs.order = made.inputs.order;
    inputs.view = made.inputs.view;
    notes_ = std::move(made.notes);
  }
  inputs.situation = select::situation_on_gpus(*groups, count_devices(agreed.reports), notes_.over,
                                               env().cuda_memory == CudaMemory::Host);
  // Other ranks have no graph: they hear the situation, for their logs.
  const nlohmann::json mine = {endpoint_.rank() == 0 ? select::DecisionTable(inputs).text() : "", inputs.situation};
  const std::string first = endpoint_.exchange(mine.dump(), deadline).front();
  const auto [table, situation] = read_of(0, [&] {
    const nlohmann::json page = parse_shallow_json(first);
    return std::pair(page.at(0).get<std::string>(), printable(page.at(1).get<std::string>()));
  });
  inputs.situation = situation;
  planner_.agree(select::DecisionTable::parse(table, inputs), groups);
}

/// Rank 0's graph of all GPUs, with the ranks on them; empty on other ranks, and where some GPU is on none.
topo::Graph DeviceCalls::make_graph(const Agreement& agreed, const Groups& groups, Deadline deadline) {
  std::vector<PlaceReport> places;
  for (const RankReport& report : agreed.reports) {
    places.push_back({parse_cores(report.fabric.cores), report.device.kind, report.host});
  }
  topo::Graph graph = job_topology(endpoint_, places, topo::gpu_topology, deadline);
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    topo::NodeId& node = graph.ranks[rank];
    node = topo::find_gpu(graph, graph.host_of(node), agreed.reports[rank].device.address);
    if (node != topo::kNoNode) continue;
    log_debug("the topology has no GPU at {} (rank {}): links between GPUs have the constants' costs",
              transports::printable_reply(agreed.reports[rank].device.address), rank);
    return {};
  }
  graph.figures = select::figures_of_gpus(inputs_.profile.get());
  if (meet_hosts(*groups, true) || meet_hosts(*groups, false)) {
    const bool levels = groups->has_two_levels();
    const select::LinkCost far = through_proxies(levels ? agreed.inputs.between : agreed.inputs.inside);
    graph.figures.push_back({.between = topo::Figure::Between::Hosts,
                             .us = far.alpha * 1e6,
                             .gbps = 1e-9 / far.beta,
                             .transport = "proxies",
                             .origin = agreed.notes.between});
  }
  return graph;
}

/// Throws Error(Unsupported) where TUTTI_METHOD forces one that these ranks cannot use.
std::vector<select::UsableMethod> DeviceCalls::usable_methods(bool all_whole, const std::string& why_no_nvls) const {
  // A stream has room for some 1,000 items: a rank that enqueues more waits, and all others wait for it.
  constexpr uint64_t kMaxItems = 512;
  const auto ranks = static_cast<uint64_t>(endpoint_.ranks());
  link::Access can;
  if (ranks > 1) can = executor_->transport().capabilities(endpoint_.rank() == 0 ? 1 : 0, {}).out;
  const std::string far = network_ == nullptr ? "" : "the ranks are of several hosts";
  const std::string torn = all_whole ? "" : "NVLink does not join all GPUs, so lines of 128 bytes may be torn";
  // Where it is demanded, messages between other GPUs travel in slots.
  const bool demanded = std::any_of(inputs_.forced_methods.begin(), inputs_.forced_methods.end(),
                                    [](const auto& one) { return one.second == exec::methods::ll128.name; });
  std::vector<select::UsableMethod> usable = {
      {.method = &exec::methods::slots},
      {.method = &exec::methods::ll, .why_not = far, .message = can.line_bytes, .rounds = 1},
      {.method = &exec::methods::ll128,
       .why_not = far.empty() && !demanded ? torn : far,
       .message = can.whole_line_bytes,
       .rounds = 1},
      {.method = &exec::methods::copy_engine,
       .why_not = far,
       .staging = executor_->copied_round(),
       .rounds = std::max<uint64_t>(1, kMaxItems / (4 * (ranks + 1)))},
      {.method = &exec::methods::nvls,
       .why_not = executor_->has_nvls() ? ""
                  : !why_no_nvls.empty()
                      ? why_no_nvls
                      : "its memory is made where TUTTI_METHOD forces nvls, or a profile has its times",
       .if_forced = !executor_->has_nvls() && why_no_nvls.empty(),
       .window = executor_->nvls_window(),
       .least_window = machine_constants().cuda_multimem_window}};
  for (const auto& [collective, name] : inputs_.forced_methods) {
    for (const select::UsableMethod& one : usable) {
      if (name != one.method->name || one.why_not.empty() || ranks == 1) continue;
      throw_error(Code::Unsupported, "TUTTI_METHOD forces {}{}{}: {}; unset it", name,
                  collective.empty() ? "" : " for ", collective, one.why_not);
    }
  }
  return usable;
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
