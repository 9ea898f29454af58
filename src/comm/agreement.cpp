#include "comm/agreement.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "comm/job_figures.hpp"
#include "comm/topology.hpp"
#include "control/host.hpp"
#include "select/forced.hpp"
#include "select/job.hpp"
#include "select/machine.hpp"
#include "select/network.hpp"
#include "select/plan_maker.hpp"
#include "topo/detect.hpp"
#include "topo/machine.hpp"

namespace tutti::comm {
namespace {

using nlohmann::json;

/// The algorithms' names with hashes.
std::string plans_text(const select::Given& given) {
  json names = json::object();
  for (const auto& [collective, algorithm] : given) names[name_of(collective)] = algorithm->name;
  return names.dump();
}

/// TUTTI_PLAN must give the same plans on all ranks.
void compare_plans(const std::vector<RankReport>& reports, Rank rank) {
  const std::string& mine = reports[static_cast<size_t>(rank)].plans;
  for (size_t peer = 0; peer < reports.size(); ++peer) {
    if (reports[peer].plans == mine) continue;
    throw_error(Code::Mismatch, "TUTTI_PLAN gives {} on rank {} but {} on rank {}; it must be the same on all ranks",
                mine, rank, reports[peer].plans, peer);
  }
}

constexpr uint64_t kShortest = 256;  // bytes of a message, as of TUTTI_MESSAGE

/// What all ranks know of each other; what links cost follows from rank 0's graph. The smallest staging memory of any
/// rank applies to all.
select::CostInputs common_inputs(const std::vector<RankReport>& reports, const Groups& groups) {
  select::CostInputs inputs{
      .ranks = static_cast<Rank>(reports.size()), .groups = groups, .gamma = machine_constants().fold_gamma};
  inputs.staging = ~uint64_t{0};
  inputs.message = env().message.value;
  inputs.forced = select::parse_forced(env().algorithm);
  inputs.forced_methods = select::parse_forced_methods(select::forced_methods_text());
  inputs.reproducible = env().reproducible;
  inputs.max_width = static_cast<uint32_t>(env().threads);
  for (const RankReport& report : reports) {
    const FabricReport& fabric = report.fabric;
    if (!fabric.unreachable.empty()) throw Error(Code::Unsupported, fabric.unreachable);
    inputs.staging = std::min(inputs.staging, fabric.staging);
    inputs.message = std::min(inputs.message, std::max(kShortest, fabric.longest));
  }
  return inputs;
}

/// The cores of each rank, by host.
using CoresOfHosts = std::map<std::string, std::vector<Cores>>;

CoresOfHosts cores_of_hosts(const std::vector<RankReport>& reports, const control::Endpoint& endpoint) {
  CoresOfHosts hosts;
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) {
    hosts[endpoint.process_id(peer).host].push_back(parse_cores(reports[static_cast<size_t>(peer)].fabric.cores));
  }
  return hosts;
}

/// The ranks of one host, by process.
RanksByProcess ranks_on(const std::string& host, const std::vector<RankReport>& reports,
                        const control::Endpoint& endpoint) {
  RanksByProcess ranks;
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) {
    const transports::ProcessId& process = endpoint.process_id(peer);
    if (process.host != host) continue;
    ranks[process.nonce].push_back(parse_cores(reports[static_cast<size_t>(peer)].fabric.cores));
  }
  return ranks;
}

/// Ranks per core on the most oversubscribed host: of this communicator's ranks, or of those that some rank knows by
/// other communicators. Of other hosts, the quota is unknown.
double oversubscription_of(const CoresOfHosts& hosts, const std::string& mine, double my_quota,
                           const std::vector<RankReport>& reports) {
  double most = 1;
  for (const RankReport& report : reports) most = std::max(most, report.crowding);
  for (const auto& [host, ranks] : hosts) {
    const double quota = host == mine ? my_quota : std::numeric_limits<double>::infinity();
    most = std::max(most, ranks_per_core(ranks, quota));
  }
  return most;
}

/// Those of all ranks together: the weakest access counts, and whether any rank shares its cores.
Conclusions combined(const std::vector<ConclusionsPage>& all) {
  Conclusions agreed;
  for (const ConclusionsPage& page : all) {
    agreed.reading = std::min(agreed.reading, page.conclusions.reading);
    agreed.shares_cores = agreed.shares_cores || page.conclusions.shares_cores;
  }
  return agreed;
}

/// The transports between any two ranks: "shm", "shm+tcp".
std::string transports_of(const std::vector<RankReport>& reports) {
  std::set<std::string> used;
  for (const RankReport& report : reports) {
    for (const auto& [relation, names] : report.fabric.routes) {
      for (size_t at = 0; at <= names.size();) {
        const size_t end = std::min(names.find('+', at), names.size());
        used.insert(names.substr(at, end - at));
        at = end + 1;
      }
    }
  }
  return fmt::format("{}", fmt::join(used, "+"));
}

/// On rank 0: its graph, and the inputs that follow from it.
void take_graph(const Conclusions& conclusions, Agreement& agreed) {
  select::CostInputs& inputs = agreed.inputs;
  select::CostInputs told = inputs;
  select::take_lengths(told);
  told.hand_over.reading = conclusions.reading;
  told.hand_over.shares_cores = conclusions.shares_cores;
  agreed.graph.facts = select::facts_of(told);
  select::MachineInputs made = select::inputs_of(agreed.graph, inputs.ranks, inputs.groups);
  made.inputs.groups_given = inputs.groups_given;
  made.inputs.given = inputs.given;
  made.inputs.profile = inputs.profile;
  made.inputs.situation = inputs.situation;
  inputs = std::move(made.inputs);
  agreed.notes = std::move(made.notes);
}

/// The decision table. Rank 0 sends it with its own conclusions, and again where those of another rank differ.
void agree_on_table(control::Endpoint& endpoint, const Conclusions& mine, Agreement& agreed, Deadline deadline) {
  const bool first = endpoint.rank() == 0, alone = endpoint.ranks() == 1;
  select::CostInputs& inputs = agreed.inputs;
  std::optional<std::shared_ptr<const select::Synthesised>> kept;  // read once: these are the plans that others get
  const auto make = [&](const Conclusions& conclusions) {
    take_graph(conclusions, agreed);
    if (!kept && !alone) {
      select::make_demanded_plans(agreed.graph, inputs, Deadline::in(deadline.left() / 2), [&] { endpoint.check(); });
    }
    if (!kept) kept = inputs.synthesised;
    inputs.synthesised = *kept;
    agreed.table = select::DecisionTable(inputs);
    return alone ? std::string() : agreed.table.text();
  };
  ConclusionsPage page{.conclusions = mine, .table = "", .synthesised = "", .inside = {}, .between = {}};
  if (first) {
    page.table = make(mine);
    page.synthesised = text_of(inputs.synthesised);
    page.inside = inputs.inside;
    page.between = inputs.between;
  }
  std::vector<ConclusionsPage> all;
  for (const std::string& bytes : endpoint.exchange(pack_fields(page), deadline)) {
    all.push_back(read_of<ConclusionsPage>(static_cast<Rank>(all.size()), bytes));
  }
  if (alone) return;
  const Conclusions common = combined(all);
  inputs.inside = all.front().inside;
  inputs.between = all.front().between;
  std::string text = all.front().conclusions == common ? all.front().table : "";
  if (text.empty()) text = endpoint.exchange(first ? make(common) : "", deadline).front();
  inputs.hand_over.reading = common.reading;
  inputs.hand_over.shares_cores = common.shares_cores;
  if (!first) inputs.synthesised = synthesised_from(all.front().synthesised, inputs.ranks);
  if (!first) agreed.table = select::DecisionTable::parse(text, inputs);
  inputs.order = agreed.table.order();
  inputs.own_orders = agreed.table.own_orders();
  inputs.groups = agreed.table.groups();
}

}  // namespace

Agreement agree(control::Endpoint& endpoint, Fabric& fabric, const Groups& groups, bool groups_given,
                std::map<std::string, BackendReport> backends, Deadline deadline) {
  Agreement agreed;
  const double quota = core_quota();
  select::Given given = select::given_plans(env().plan, endpoint.ranks());
  const bool uses_others =
      std::any_of(backends.begin(), backends.end(), [](const auto& one) { return one.second.why_not.empty(); });
  const RankReport mine{fabric.report(),
                        plans_text(given),
                        control::host_name(),
                        control::boot_identity(),
                        std::move(backends),
                        ranks_per_core(known_host_ranks(), quota),
                        endpoint.ranks() > 1 ? kind_of_this_host() : 0,
                        uses_others && endpoint.ranks() > 1 ? kind_with_gpus() : 0};
  for (const std::string& text : endpoint.exchange(pack_fields(mine), deadline)) {
    agreed.reports.push_back(parse_report(text, static_cast<Rank>(agreed.reports.size())));
  }
  compare_plans(agreed.reports, endpoint.rank());
  select::CostInputs& inputs = agreed.inputs = common_inputs(agreed.reports, groups);
  inputs.given = std::move(given);
  inputs.groups_given = groups_given;
  inputs.hand_over.always_cma = fabric.cma() == Cma::Always;
  const CoresOfHosts hosts = cores_of_hosts(agreed.reports, endpoint);
  const std::string& my_host = endpoint.process_id(endpoint.rank()).host;
  inputs.oversubscription = oversubscription_of(hosts, my_host, quota, agreed.reports);
  inputs.profile = select::local_profile();
  inputs.situation = select::situation_of(*groups, transports_of(agreed.reports), inputs.oversubscription > 1);
  std::vector<Cores> threads;  // of all ranks of this host, each with the cores that it may run on
  agreed.host_ranks = ranks_on(my_host, agreed.reports, endpoint);
  for (const Cores& cores : known_host_ranks(agreed.host_ranks)) {
    threads.insert(threads.end(), static_cast<size_t>(env().threads), cores);
  }
  agreed.backoff = exec::backoff_for(shares_cores(parse_cores(fabric.report().cores), threads, quota));
  std::vector<PlaceReport> places;
  for (const RankReport& report : agreed.reports) {
    places.push_back({parse_cores(report.fabric.cores), report.kind, report.host});
  }
  agreed.graph = job_topology(endpoint, places, topo::kept_topology, deadline);
  agreed.graph.figures = figures_of(agreed.reports);
  if (endpoint.rank() == 0 && inputs.profile != nullptr) {
    select::add_measured_hosts(agreed.graph, inputs.profile->hosts);
  }
  std::vector<transports::Word> words;
  for (const RankReport& report : agreed.reports) words.push_back(report.fabric.word);
  agree_on_table(endpoint, {fabric.probe_cma(words), agreed.backoff.spins == 0}, agreed, deadline);
  if (endpoint.rank() == 0 && endpoint.ranks() > 1) select::make_plans_later(agreed.graph, inputs);
  return agreed;
}

}  // namespace tutti::comm
