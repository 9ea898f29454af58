#include "comm/backend_calls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "comm/placement.hpp"
#include "comm/topology.hpp"
#include "plan/plan.hpp"
#include "select/forced.hpp"
#include "select/gpus.hpp"
#include "select/plan_maker.hpp"
#include "topo/detect.hpp"
#include "transports/pod_text.hpp"

namespace tutti::comm {
namespace {

/// What rank 0 tells all: its table, and what it priced the links at, by which all ranks predict.
struct TablePage {
  std::string table, situation, synthesised;
  select::LinkCost inside, between;
  static void fields(auto& m, auto& v) {
    v.text(m.table, kMaxTable);
    v.words(m.situation, kMaxReport);
    v.text(m.synthesised, select::kMaxSynthesised);
    v.item(m.inside);
    v.item(m.between);
  }
};

}  // namespace

BackendCalls::BackendCalls(std::unique_ptr<exec::Backend> host, Rank rank, Rank ranks)
    : backend_(std::move(host)), planner_(std::make_unique<Planner>(rank, ranks, *backend_)) {}

BackendCalls::BackendCalls(const exec::BackendEntry& entry, int processor, const Context& context)
    : entry_(&entry), endpoint_(&context.endpoint), processor_(processor) {
  if (processor == exec::kNoProcessor) {
    refused_ = entry.why_none;
    return;
  }
  note_use_of(entry);  // also if it cannot be made: its memory is not the host's
  try {
    if (!entry.is_driven) {
      enqueued_ = std::make_unique<EnqueuedCalls>(context.endpoint, context.board, context.title, context.timeouts,
                                                  context.cut_off);
    }
    network_ = std::make_unique<BackendNetwork>(context.endpoint, context.fabric, enqueued_.get(), entry.name,
                                                context.timeouts.of_init());
    backend_ = entry.make({.wireup = &context.endpoint,
                           .failed = &context.endpoint.failed(),
                           .observer = enqueued_ == nullptr ? &context.observer : enqueued_.get(),
                           .network = network_.get(),
                           .backoff = &context.backoff,
                           .processor = processor,
                           .init_timeout = context.timeouts.of_init()});
    planner_ = std::make_unique<Planner>(context.endpoint.rank(), context.endpoint.ranks(), *backend_);
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

void BackendCalls::refuse(std::string why) {
  refused_ = std::move(why);
  planner_.reset();
  backend_.reset();
  network_.reset();
}

void BackendCalls::check_served(Rank rank, const std::string& title) const {
  if (refused_.empty()) return;
  throw_error(Code::Unsupported, "rank {}: calls on memory of {} cannot be made on {}: {}", rank, name(), title,
              refused_);
}

void BackendCalls::use(const select::CostInputs& inputs, select::DecisionTable table, const Groups& groups) {
  inputs_ = inputs;
  planner_->agree(std::move(table), groups);
}

BackendReport BackendCalls::report() const {
  return {.why_not = refused_, .text = refused_.empty() ? backend_->report() : ""};
}

void BackendCalls::meet(const Agreement& agreed) {
  std::vector<std::string> reports;
  for (size_t peer = 0; peer < agreed.reports.size(); ++peer) {
    const auto found = agreed.reports[peer].backends.find(name());
    const std::string why_not =
        found == agreed.reports[peer].backends.end() ? "it has no such backend" : found->second.why_not;
    if (!why_not.empty()) throw_error(Code::Unsupported, "rank {} cannot make them: {}", peer, why_not);
    reports.push_back(found->second.text);
  }
  processors_ = backend_->meet(reports);
  if (processors_.size() != reports.size()) {
    throw_error(Code::Unsupported, "the backend {} met {} of {}", name(), counted(processors_.size(), "processor"),
                counted(reports.size(), "rank"));
  }
  std::set<std::string> models;
  for (const exec::Processor& processor : processors_) models.insert(processor.model);
  measured_on_ = {.models = {models.begin(), models.end()}, .driver = processors_.front().driver};
}

/// Measured ones: for as many ranks, by the profile.
exec::WantedMethods BackendCalls::wanted(const Agreement& agreed) const {
  exec::WantedMethods wanted;
  for (const auto& [collective, method] : agreed.inputs.forced_methods) wanted.forced.insert(method);
  if (profile_ == nullptr) return wanted;
  const std::string ranks = counted(static_cast<uint64_t>(endpoint_->ranks()), "rank") + " ";
  for (const auto& [situation, collectives] : profile_->measured) {
    if (!select::is_on_processors(situation) || !situation.starts_with(ranks)) continue;
    for (const auto& [collective, times] : collectives) {
      for (const exec::Method* method : exec::methods_of(name())) {
        const auto is_its = [&](const auto& one) { return one.first.ends_with(select::candidate_name("", *method)); };
        if (std::any_of(times.begin(), times.end(), is_its)) wanted.measured.insert(method->name);
      }
    }
  }
  return wanted;
}

void BackendCalls::agree(const Agreement& agreed, const Groups& groups, Deadline deadline) {
  exec::Offer offer;
  try {
    meet(agreed);
    profile_ = select::profile_for(measured_on_);
    offer = backend_->agree(wanted(agreed),
                            [&](std::string mine) { return endpoint_->exchange(std::move(mine), deadline); });
  } catch (const Error& error) {
    if (error.code() != Code::Unsupported) throw;
    return refuse(error.what());
  }
  take_offer(std::move(offer), agreed, groups);
  if (inputs_.ranks == 1) return planner_->agree(select::DecisionTable(inputs_), groups);
  use_graph(agreed, groups, deadline);
  // Other ranks have no graph.
  const TablePage mine{.table = endpoint_->rank() == 0 ? select::DecisionTable(inputs_).text() : "",
                       .situation = inputs_.situation,
                       .synthesised = text_of(inputs_.synthesised),
                       .inside = inputs_.inside,
                       .between = inputs_.between};
  const TablePage page = read_of<TablePage>(0, endpoint_->exchange(pack_fields(mine), deadline).front());
  inputs_.situation = page.situation;
  inputs_.inside = page.inside;
  inputs_.between = page.between;
  if (endpoint_->rank() != 0) inputs_.synthesised = synthesised_from(page.synthesised, inputs_.ranks);
  planner_->agree(select::DecisionTable::parse(page.table, inputs_), groups);
}

/// Are two ranks of one group (or, not `inside`, of two) on different hosts? Without two levels all are one group.
bool BackendCalls::meet_hosts(const plan::Grouping& groups, bool inside) const {
  const bool levels = groups.has_two_levels();
  for (Rank a = 0; a < endpoint_->ranks(); ++a) {
    for (Rank b = 0; b < a; ++b) {
      const bool together = !levels || groups.group_of(a) == groups.group_of(b);
      if (together == inside && endpoint_->process_id(a).host != endpoint_->process_id(b).host) return true;
    }
  }
  return false;
}

/// Links between hosts: both backends take part in every message.
select::LinkCost BackendCalls::relayed(const select::LinkCost& network) const {
  return {network.alpha + 2 * offer_.relay, std::max(network.beta, offer_.relay_beta), offer_.relay};
}

void BackendCalls::take_offer(exec::Offer offer, const Agreement& agreed, const Groups& groups) {
  offer_ = std::move(offer);
  inputs_ = agreed.inputs;
  inputs_.groups = groups;  // of hosts: which cores share a cache says nothing of GPUs
  inputs_.inside = meet_hosts(*groups, true) ? relayed(agreed.inputs.inside) : offer_.near;
  inputs_.between = meet_hosts(*groups, false) ? relayed(agreed.inputs.between) : offer_.near;
  inputs_.gamma = offer_.gamma;
  inputs_.oversubscription = 1;
  inputs_.staging = offer_.staging;
  inputs_.message = offer_.message;
  inputs_.profile = profile_;
  inputs_.max_width = offer_.max_width;
  inputs_.shares_staging = false;
  inputs_.view = nullptr;  // this, the plans and the order were those of host memory
  inputs_.synthesised = nullptr;
  inputs_.order = select::parse_order(env().order, inputs_.ranks).value_or(plan::RankOrder());
  inputs_.own_orders.clear();
  inputs_.methods = offer_.methods;
  for (exec::UsableMethod& usable : inputs_.methods) {  // a module has copies of the library's
    for (const exec::Method* known : exec::methods_of(usable.method->backend)) {
      if (*known == *usable.method) usable.method = known;
    }
  }
  check_forced();
}

void BackendCalls::check_forced() const {
  if (inputs_.ranks == 1) return;
  for (const auto& [collective, name] : inputs_.forced_methods) {
    for (const exec::UsableMethod& one : inputs_.methods) {
      if (name != one.method->name || one.why_not.empty()) continue;
      throw_error(Code::Unsupported, "TUTTI_METHOD forces {}{}{}: {}; unset it", name,
                  collective.empty() ? "" : " for ", collective, one.why_not);
    }
  }
}

void BackendCalls::use_graph(const Agreement& agreed, const Groups& groups, Deadline deadline) {
  topo::Graph graph = make_graph(agreed, groups, deadline);
  if (!graph.ranks.empty()) {
    select::MachineInputs made = select::inputs_of(graph, inputs_.ranks, groups);
    inputs_.inside = made.inputs.inside;
    inputs_.between = made.inputs.between;
    inputs_.order = made.inputs.order;
    inputs_.own_orders = std::move(made.inputs.own_orders);
    inputs_.view = made.inputs.view;
    inputs_.synthesised = made.inputs.synthesised;
    notes_ = std::move(made.notes);
    select::make_plans_later(graph, inputs_);
    if (env().explain) graph_ = std::move(graph);
  }
  std::set<std::string> different;
  for (const exec::Processor& processor : processors_) different.insert(processor.id);
  inputs_.situation =
      select::situation_on(*groups, different.size(), offer_.processor, notes_.over, offer_.links_in_host_memory);
}

/// Rank 0's graph of all processors, with the ranks on them; empty on other ranks, and where some processor is on none.
topo::Graph BackendCalls::make_graph(const Agreement& agreed, const Groups& groups, Deadline deadline) const {
  std::vector<PlaceReport> places;
  for (const RankReport& report : agreed.reports) {
    places.push_back({parse_cores(report.fabric.cores), report.kind_with_gpus, report.host});
  }
  topo::Graph graph = job_topology(*endpoint_, places, topo::gpu_topology, deadline);
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    topo::NodeId& node = graph.ranks[rank];
    const std::string& address = processors_[rank].address;
    node = topo::find_gpu(graph, graph.host_of(node), address);
    if (node != topo::kNoNode) continue;
    log_debug("the topology has no processor at {} (rank {}): links of {} have the constants' costs",
              transports::printable_reply(address), rank, name());
    return {};
  }
  graph.figures = select::figures_of_gpus(inputs_.profile.get());
  if (meet_hosts(*groups, true) || meet_hosts(*groups, false)) {
    const bool levels = groups->has_two_levels();
    const select::LinkCost far = relayed(levels ? agreed.inputs.between : agreed.inputs.inside);
    graph.figures.push_back({.between = topo::Figure::Between::Hosts,
                             .us = far.alpha * 1e6,
                             .gbps = 1e-9 / far.beta,
                             .transport = "proxies",
                             .origin = agreed.notes.between});
  }
  return graph;
}

void BackendCalls::check(const Call& call, Rank rank, Rank ranks) const {
  const uint64_t unit = size_of(call.spec.type);
  const auto check_extent = [&](const void* data, uint64_t bytes, const char* what) {
    const std::string why_not = backend_->why_not(data, bytes, unit);
    if (why_not.empty()) return;
    throw_error(Code::InvalidArgument, "rank {}: {}: {} {}", rank, describe(call.spec), what, why_not);
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
  if (call.scale_by_address) {
    const void* scalar = nullptr;
    std::memcpy(&scalar, call.scale, sizeof scalar);
    check_extent(scalar, unit, "the operator's scalar");
  }
  try {
    backend_->check_stream(call.stream);
  } catch (const Error& error) {
    throw_error(error.code(), "rank {}: {}: {}", rank, describe(call.spec), error.what());
  }
}

const KnownCall& BackendCalls::plan(const Call& call) {
  for (bool first = true;; first = false) {
    const KnownCall& known = planner_->collective(call);
    if (!known.program->row.method->reads_in_place) return known;
    if (first && add_captured(call, known)) continue;
    if (backend_->pin_regions(known.generation)) return known;
  }
}

/// What a captured call's peers could read in place is given to them first: a graph may be launched often.
bool BackendCalls::add_captured(const Call& call, const KnownCall& known) {
  std::array<exec::Extent, 2> memory;
  size_t count = 0;
  const auto add = [&](const void* data, const link::SharedRegion& region, plan::Buffer buffer) {
    const uint64_t bytes = planner_->buffer_bytes(call.spec, buffer);
    if (data != nullptr && bytes > 0 && region.id == 0) memory[count++] = {data, bytes};
  };
  add(call.in, known.in_region, plan::Buffer::Input);
  add(call.out, known.out_region, plan::Buffer::Output);
  return count > 0 && backend_->add_captured(call.stream, {memory.data(), count});
}

}  // namespace tutti::comm
