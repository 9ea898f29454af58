#include "comm/agreement.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "base/version.hpp"
#include "control/host.hpp"
#include "select/calibration.hpp"
#include "topo/machine.hpp"

namespace tutti::comm {
namespace {

using nlohmann::json;
using Slowest = FabricReport::Slowest;

constexpr int kPlanFormat = 1;
constexpr const char* kCudaWireWords[] = {"auto", "slot", "ll", "ll128", "copy", "multimem"};  // by CudaWire
constexpr const char* kCmaWords[] = {"off", "auto", "always"};                                 // by Cma

/// Runs `body`, which reads JSON of rank `peer`.
template <class Body>
decltype(auto) read(Rank peer, Body&& body) {
  try {
    return body();
  } catch (const json::exception& error) {
    throw_error(Code::ProtocolError, "the report of rank {} is invalid ({})", peer, error.what());
  }
}

json to_json(const Slowest& links) { return {links.alpha, links.beta, links.in_place}; }

Slowest slowest_from(const json& links) {
  return {links.at(0).get<double>(), links.at(1).get<double>(), links.at(2).get<bool>()};
}

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

void take_slower(select::LinkCost& link_cost, const Slowest& slowest) {
  link_cost.alpha = std::max(link_cost.alpha, slowest.alpha);
  link_cost.beta = std::max(link_cost.beta, slowest.beta);
  link_cost.message = link_cost.alpha * machine_constants().message_share;
  link_cost.in_place = link_cost.in_place && slowest.in_place;
}

constexpr uint64_t kShortest = 256;  // bytes of a message, as of TUTTI_MESSAGE

/// The slowest links and the smallest staging memory of any rank apply to all.
select::Setting common_setting(const std::vector<RankReport>& reports, const Groups& groups) {
  select::Setting setting{
      .ranks = static_cast<Rank>(reports.size()), .groups = groups, .gamma = machine_constants().fold_gamma};
  setting.inside = setting.between = {0, 0, 0, true};
  setting.staging = ~uint64_t{0};
  setting.message = env().message.value;
  setting.forced = select::parse_forced(env().algorithm);
  setting.reproducible = env().reproducible;
  for (const RankReport& report : reports) {
    const FabricReport& fabric = report.fabric;
    if (!fabric.unreachable.empty()) throw Error(Code::Unsupported, fabric.unreachable);
    take_slower(setting.inside, fabric.inside);
    take_slower(groups->has_two_levels() ? setting.between : setting.inside, fabric.between);
    setting.staging = std::min(setting.staging, fabric.staging);
    setting.message = std::min(setting.message, std::max(kShortest, fabric.longest));
  }
  return setting;
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

/// What a rank concludes from the reports; rank 0 adds the decision table.
json conclusions_from(const std::vector<RankReport>& reports, Fabric& fabric, bool oversubscribed) {
  std::vector<transports::Word> words;
  for (const RankReport& report : reports) words.push_back(report.fabric.word);
  return {{"reading", fabric.try_words(words)}, {"oversubscribed", oversubscribed}};
}

void combine(const json& conclusions, AgreedCapabilities& agreed) {
  const uint64_t reading = std::min(whole_number(conclusions.at("reading")), static_cast<uint64_t>(agreed.reading));
  agreed.reading = static_cast<transports::ReadAccess>(reading);
  agreed.oversubscribed = agreed.oversubscribed || conclusions.at("oversubscribed").get<bool>();
}

/// The conclusions of all ranks, combined.
AgreedCapabilities combined(const std::vector<std::string>& all) {
  AgreedCapabilities agreed{.reading = transports::ReadAccess::Direct};
  for (size_t peer = 0; peer < all.size(); ++peer) {
    read(static_cast<Rank>(peer), [&] { combine(parse_shallow_json(all[peer]), agreed); });
  }
  return agreed;
}

/// The quick calibration, if there is no profile, which knows better.
const select::Calibration* local_figures() {
  return select::local_profile() == nullptr ? select::local_calibration() : nullptr;
}

/// On the wire a shift is counted from the least.
json to_json(const select::LengthShifts& shifts) {
  constexpr int kMost = select::LengthShifts::kMost;
  return {kMost + shifts.cma, kMost + shifts.wait, kMost + shifts.caches, shifts.no_cma ? 1 : 0};
}

/// Those of rank 0, whose machine is taken for all.
select::LengthShifts shifts_from(const json& conclusions) {
  constexpr int kMost = select::LengthShifts::kMost;
  const auto shift = [&](size_t i) {
    const uint64_t counted = whole_number(conclusions.at("shifts").at(i));
    if (counted > 2 * kMost)
      throw_error(Code::ProtocolError, "rank 0 scales lengths by an impossible shift ({})", counted);
    return static_cast<int>(counted) - kMost;
  };
  return {.cma = shift(0),
          .no_cma = whole_number(conclusions.at("shifts").at(3)) != 0,
          .wait = shift(1),
          .caches = shift(2)};
}

/// A profile is named by its contents.
std::string profile_text() {
  const auto profile = select::local_profile();
  return profile == nullptr ? "none" : fmt::format("{:016x}", profile->hash());
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

}  // namespace

std::string configuration() {
  local_figures();                  // before links' costs are asked for
  std::vector<std::string> usable;  // two ranks must choose the same, and some are modules that a host may lack
  if (env().transport.empty()) {
    for (const transports::TransportEntry& entry : transports::transports()) usable.emplace_back(entry.name);
  }
  const json all = {{"version", version()},
                    {"plan format", kPlanFormat},
                    {"link format", link::kLinkFormat},
                    {"TUTTI_ALGO", env().algorithm},
                    {"TUTTI_CMA", kCmaWords[static_cast<size_t>(env().cma)]},
                    {"TUTTI_GROUPS", env().groups},
                    {"the profile (TUTTI_PROFILE, `tutti tune`; TUTTI_PROFILE=off uses none)", profile_text()},
                    {"TUTTI_REPRODUCIBLE", env().reproducible},
                    {"TUTTI_MESSAGE", env().message.value},
                    {"TUTTI_MAX_BLOCKS", env().max_blocks},
                    {"TUTTI_CUDA_WIRE", kCudaWireWords[static_cast<size_t>(env().cuda_wire)]},
                    {"TUTTI_THREADS", env().threads},
                    {"TUTTI_TRANSPORT", env().transport},
                    {"the list of transports (TUTTI_MODULES adds to it, TUTTI_TRANSPORT takes one)", usable}};
  return all.dump();
}

void compare_configurations(const control::Endpoint& endpoint) {
  const json mine = json::parse(endpoint.info(endpoint.rank()));
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) {
    if (endpoint.info(peer) == endpoint.info(endpoint.rank())) continue;
    const json theirs = parse_shallow_json(endpoint.info(peer), false);
    for (const auto& [name, value] : mine.items()) {
      const json other = theirs.is_object() && theirs.contains(name) ? theirs[name] : json();
      if (other == value) continue;
      throw_error(Code::Mismatch, "{} is {} on rank {} but {} on rank {}; it must be the same on all ranks", name,
                  value.dump(), endpoint.rank(), printable(other.dump()), peer);
    }
    throw_error(Code::Mismatch, "the configurations of ranks {} and {} differ", peer, endpoint.rank());
  }
}

std::string to_text(const RankReport& report) {
  const FabricReport& fabric = report.fabric;
  const json all = {{"plans", json::parse(report.plans)},
                    {"staging", fabric.staging},
                    {"longest", fabric.longest},
                    {"inside", to_json(fabric.inside)},
                    {"between", to_json(fabric.between)},
                    {"unreachable", fabric.unreachable},
                    {"word", {fabric.word.at, fabric.word.value}},
                    {"cores", fabric.cores},
                    {"arena", fabric.arena},
                    {"routes", fabric.routes},
                    {"name", report.host},
                    {"boot", report.boot},
                    {"crowding", report.crowding},
                    {"device",
                     {report.device.why_not, report.device.id, report.device.blocks, report.device.joined,
                      report.device.why_no_switch}}};
  return all.dump();
}

/// Throws Error(ProtocolError) unless it is a sensible number of ranks per core.
double crowding_from(const json& value) {
  const double crowding = value.get<double>();
  if (crowding >= 1 && crowding <= 1e6) return crowding;
  throw_error(Code::ProtocolError, "another rank sent {} in place of the ranks on a core", value.dump());
}

RankReport parse_report(const std::string& text, Rank peer) {
  return read(peer, [&] {
    const json report = parse_shallow_json(text);
    const json &word = report.at("word"), &device = report.at("device");
    return RankReport{
        .fabric = {.staging = whole_number(report.at("staging")),
                   .longest = whole_number(report.at("longest")),
                   .inside = slowest_from(report.at("inside")),
                   .between = slowest_from(report.at("between")),
                   .unreachable = printable(report.at("unreachable").get<std::string>()),
                   .word = {whole_number(word.at(0)), whole_number(word.at(1))},
                   .cores = report.at("cores").get<std::string>(),
                   .arena = whole_number(report.at("arena")),
                   .routes = report.at("routes").get<std::map<std::string, std::string>>()},
        .plans = report.at("plans").dump(),
        .host = printable(report.at("name").get<std::string>()),
        .boot = report.at("boot").get<std::string>(),
        .device = {device.at(0).get<std::string>(), device.at(1).get<std::string>(), whole_number(device.at(2)),
                   device.at(3).get<std::vector<std::string>>(), device.at(4).get<std::string>()},
        .crowding = crowding_from(report.at("crowding"))};
  });
}

Agreement agree(control::Endpoint& endpoint, Fabric& fabric, const Groups& groups, bool groups_given,
                const DeviceReport& device, Deadline deadline) {
  Agreement agreed;
  const double quota = core_quota();
  select::Given given = select::given_plans(env().plan, endpoint.ranks());
  const RankReport mine{fabric.report(),
                        plans_text(given),
                        control::host_name(),
                        control::boot_identity(),
                        device,
                        ranks_per_core(known_host_ranks(), quota)};
  for (const std::string& text : endpoint.exchange(to_text(mine), deadline)) {
    agreed.reports.push_back(parse_report(text, static_cast<Rank>(agreed.reports.size())));
  }
  compare_plans(agreed.reports, endpoint.rank());
  select::Setting& setting = agreed.setting = common_setting(agreed.reports, groups);
  setting.given = std::move(given);
  setting.groups_given = groups_given;
  const CoresOfHosts hosts = cores_of_hosts(agreed.reports, endpoint);
  const std::string& my_host = endpoint.process_id(endpoint.rank()).host;
  setting.oversubscription = oversubscription_of(hosts, my_host, quota, agreed.reports);
  setting.profile = select::local_profile();
  setting.situation = select::situation_of(*groups, transports_of(agreed.reports), setting.oversubscription > 1);
  std::vector<Cores> threads;  // of all ranks of this host, each with the cores that it may run on
  agreed.host_ranks = ranks_on(my_host, agreed.reports, endpoint);
  for (const Cores& cores : known_host_ranks(agreed.host_ranks)) {
    threads.insert(threads.end(), static_cast<size_t>(env().threads), cores);
  }
  agreed.backoff = exec::backoff_for(shares_cores(parse_cores(fabric.report().cores), threads, quota));
  json conclusions = conclusions_from(agreed.reports, fabric, agreed.backoff.spins == 0);
  if (endpoint.rank() == 0) {
    const select::Calibration* const measured = local_figures();
    conclusions["shifts"] = to_json(measured == nullptr ? select::LengthShifts{} : select::shifts_of(*measured));
    conclusions["table"] = select::DecisionTable(setting).text();
  }
  const auto all = endpoint.exchange(conclusions.dump(), deadline);
  agreed.capabilities = combined(all);
  agreed.capabilities.staging = setting.staging;
  agreed.capabilities.message = setting.message;
  agreed.capabilities.always_cma = fabric.cma() == Cma::Always;
  agreed.capabilities.threads = static_cast<uint32_t>(env().threads);
  agreed.table = read(0, [&] {
    const json first = parse_shallow_json(all.front());
    agreed.capabilities.shifts = shifts_from(first);
    const auto table = first.at("table").get<std::string>();
    return select::DecisionTable::parse(table, setting);
  });
  return agreed;
}

}  // namespace tutti::comm
