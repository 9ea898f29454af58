#include "comm/communicator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/cgroup.hpp"
#include "base/cores.hpp"
#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/shallow_json.hpp"
#include "base/version.hpp"
#include "comm/vector_calls.hpp"
#include "control/describe.hpp"
#include "control/host.hpp"
#include "exec/host/host_executor.hpp"

namespace tutti::comm {
namespace {

using nlohmann::json;

constexpr int kPlanFormat = 1;
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // a multiplicative hash constant: mixes into the high bits

constexpr const char* kCmaWords[] = {"off", "auto", "always"};  // by Cma

/// The settings that must be equal on all ranks so that they understand each other and choose alike. TUTTI_CMA: a
/// reader looks for revoked messages only where it expects zero-copy ones.
std::string configuration() {
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
                    {"TUTTI_REPRODUCIBLE", env().reproducible},
                    {"TUTTI_MESSAGE", env().message.value},
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
                  value.dump(), endpoint.rank(), other.dump(), peer);
    }
    throw_error(Code::Mismatch, "the configurations of ranks {} and {} differ", peer, endpoint.rank());
  }
}

/// The algorithms' names with hashes.
json to_json(const select::Given& given) {
  json names = json::object();
  for (const auto& [collective, algorithm] : given) names[name_of(collective)] = algorithm->name;
  return names;
}

json to_json(const FabricReport& report, const select::Given& given) {
  return {{"plans", to_json(given)},
          {"staging", report.staging},
          {"inside", {report.inside.alpha, report.inside.beta, report.inside.in_place}},
          {"between", {report.between.alpha, report.between.beta, report.between.in_place}},
          {"unreachable", report.unreachable},
          {"word", {report.word.at, report.word.value}},
          {"cores", report.cores},
          {"arena", report.arena},
          {"routes", report.routes},
          {"name", control::host_name()}};
}

/// How long this rank may spin: less if ranks share its host's cores.
exec::Backoff common_backoff(const std::vector<std::string>& reports, const control::Endpoint& endpoint) {
  std::vector<Cores> all;
  Cores mine;
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) {
    if (endpoint.process_id(peer).host != endpoint.process_id(endpoint.rank()).host) continue;
    all.push_back(parse_cores(parse_shallow_json(reports[static_cast<size_t>(peer)]).at("cores").get<std::string>()));
    if (peer == endpoint.rank()) mine = all.back();
  }
  return exec::backoff_for(mine, all, core_quota());
}

/// TUTTI_PLAN must give the same plans on all ranks.
void compare_plans(const std::vector<std::string>& reports, Rank rank) {
  const json mine = json::parse(reports[static_cast<size_t>(rank)]).at("plans");
  for (size_t peer = 0; peer < reports.size(); ++peer) {
    const json theirs = parse_shallow_json(reports[peer]).at("plans");
    if (theirs == mine) continue;
    throw_error(Code::Mismatch, "TUTTI_PLAN gives {} on rank {} but {} on rank {}; it must be the same on all ranks",
                mine.dump(), rank, theirs.dump(), peer);
  }
}

void take_slower(select::LinkCost& link_cost, const json& slowest) {
  link_cost.alpha = std::max(link_cost.alpha, slowest.at(0).get<double>());
  link_cost.beta = std::max(link_cost.beta, slowest.at(1).get<double>());
  link_cost.message = link_cost.alpha / 3;
  link_cost.in_place = link_cost.in_place && slowest.at(2).get<bool>();
}

/// Ranks per core on the most oversubscribed host.
double oversubscription_of(const std::vector<std::string>& reports, const control::Endpoint& endpoint) {
  std::map<std::string, std::pair<double, std::set<int>>> hosts;  // number of ranks, and their cores
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) {
    auto& [ranks, cores] = hosts[endpoint.process_id(peer).host];
    ++ranks;
    const json report = parse_shallow_json(reports[static_cast<size_t>(peer)]);
    for (const int core : parse_cores(report.at("cores").get<std::string>())) cores.insert(core);
  }
  double oversubscription = 1;
  for (const auto& [host, all] : hosts)
    oversubscription = std::max(oversubscription, all.first / static_cast<double>(all.second.size()));
  const double mine = hosts[endpoint.process_id(endpoint.rank()).host].first;
  return std::max(oversubscription, mine / std::ceil(core_quota()));
}

/// The slowest links and the smallest staging memory of any rank apply to all.
select::Setting common_setting(const std::vector<std::string>& reports, const Groups& groups) {
  constexpr double kFoldSpeed = 40e9;  // bytes per second and core, in cache: the cost of folding beyond copying
  select::Setting setting{.ranks = static_cast<Rank>(reports.size()), .groups = groups, .gamma = 1 / kFoldSpeed};
  setting.inside = setting.between = {0, 0, 0, true};
  setting.staging = ~uint64_t{0};
  setting.message = env().message.value;
  setting.forced = select::parse_forced(env().algorithm);
  setting.reproducible = env().reproducible;
  for (const std::string& text : reports) {
    const json report = parse_shallow_json(text);
    if (const auto why = report.at("unreachable").get<std::string>(); !why.empty()) throw Error(Code::Unsupported, why);
    take_slower(setting.inside, report.at("inside"));
    take_slower(groups->has_two_levels() ? setting.between : setting.inside, report.at("between"));
    setting.staging = std::min(setting.staging, whole_number(report.at("staging")));
  }
  return setting;
}

/// A rank's conclusions from the reports.
json conclusions_from(const std::vector<std::string>& reports, Fabric& fabric, bool oversubscribed) {
  std::vector<transports::Word> words;
  for (const std::string& report : reports) {
    const json word = parse_shallow_json(report).at("word");
    words.push_back({whole_number(word.at(0)), whole_number(word.at(1))});
  }
  return {{"reading", fabric.try_words(words)}, {"oversubscribed", oversubscribed}};
}

/// The conclusions of all ranks, combined.
AgreedCapabilities agreed_capabilities(const std::vector<std::string>& conclusions) {
  AgreedCapabilities agreed{.reading = transports::ReadAccess::Direct};
  for (const std::string& text : conclusions) {
    const json conclusion = parse_shallow_json(text);
    const uint64_t reading = std::min(whole_number(conclusion.at("reading")), static_cast<uint64_t>(agreed.reading));
    agreed.reading = static_cast<transports::ReadAccess>(reading);
    agreed.oversubscribed = agreed.oversubscribed || conclusion.at("oversubscribed").get<bool>();
  }
  return agreed;
}

const void* scale_of(const Call& call) { return call.spec.op == Op::PreMulSum ? call.scale : nullptr; }

}  // namespace

std::shared_ptr<Communicator> Communicator::join(const control::UniqueId& id, Rank ranks, Rank rank,
                                                 JoinOptions options) {
  const double seconds = options.timeouts.of_init();
  std::string mine;
  try {
    mine = configuration();
  } catch (const Error& error) {  // before any other rank knows of this one
    control::withdraw(id, {ranks, rank, error.code(), control::describe_withdrawal(rank, error)});
    throw;
  }
  auto endpoint = control::Endpoint::join(id, ranks, rank, std::move(mine), Deadline::in(seconds), options.stop);
  if (options.title.empty()) options.title = fmt::format("communicator {} of {} ranks", id.name().substr(0, 4), ranks);
  std::shared_ptr<Communicator> made(new Communicator(std::move(endpoint), std::move(options.title), options.timeouts));
  try {
    const bool groups_given = options.groups != nullptr || !env().groups.empty();
    made->wire_up(std::move(options.groups));
    made->agree(groups_given);
  } catch (const Error& error) {
    const bool of_the_system = control::is_of_the_system(error.code());
    const std::string text =
        of_the_system ? fmt::format("{}: {}", made->endpoint_->describe(rank), error.what()) : error.what();
    made->endpoint_->fail(error.code(), text);
    made->endpoint_->leave(0, Deadline::in(seconds));  // the others are to hear of it before this process ends
    throw Error(error.code(), text);
  } catch (const json::exception& error) {
    const std::string text = fmt::format("rank {}: a rank's report is invalid ({})", rank, error.what());
    made->endpoint_->fail(Code::ProtocolError, text);
    made->endpoint_->leave(0, Deadline::in(seconds));
    throw Error(Code::ProtocolError, text);
  }
  return made;
}

Communicator::Communicator(std::unique_ptr<control::Endpoint> endpoint, std::string title, const Timeouts& timeouts)
    : endpoint_(std::move(endpoint)),
      timeouts_(timeouts),
      diagnostics_(*endpoint_, *board_, std::move(title), timeouts_) {}

void Communicator::wire_up(Groups groups) {
  compare_configurations(*endpoint_);
  std::vector<std::string> hosts;
  for (Rank peer = 0; peer < ranks(); ++peer) hosts.push_back(endpoint_->process_id(peer).host);
  groups_ = groups != nullptr ? std::move(groups) : groups_of(hosts, env().groups);
  endpoint_->serve_board(board_service(board_, *endpoint_));
  fabric_ = std::make_unique<Fabric>(*endpoint_, *groups_, timeouts_.of_init());
  links_ = std::make_unique<exec::Links>(*fabric_);
  diagnostics_.use_links(*links_);
  executor_ = std::make_unique<exec::HostExecutor>(
      exec::HostExecutor::Context{.rank = rank(),
                                  .ranks = ranks(),
                                  .links = links_.get(),
                                  .arena = &fabric_->arena(),
                                  .engines = fabric_->engines(),
                                  .failed = &failed_,
                                  .observer = &diagnostics_,
                                  .backoff = &backoff_,
                                  .threads = static_cast<uint32_t>(env().threads)});
  planner_ = std::make_unique<Planner>(rank(), ranks(), *executor_, backoff_);
}

Communicator::~Communicator() {
  executor_.reset();
  Fabric::retire(std::move(fabric_), endpoint_);
}

void Communicator::retire() {
  current_ = nullptr;
  planner_.reset();
  executor_.reset();
  links_.reset();
  Fabric::retire(std::move(fabric_), endpoint_);
}

void Communicator::agree(bool groups_given) {
  const Deadline deadline = Deadline::in(timeouts_.of_init());
  select::Given given = select::given_plans(env().plan, ranks());
  const auto reports = endpoint_->exchange(to_json(fabric_->report(), given).dump(), deadline);
  compare_plans(reports, rank());
  select::Setting setting = common_setting(reports, groups_);
  setting.given = std::move(given);
  setting.groups_given = groups_given;
  setting.oversubscription = oversubscription_of(reports, *endpoint_);
  backoff_ = common_backoff(reports, *endpoint_);
  json mine = conclusions_from(reports, *fabric_, backoff_.spins == 0);
  if (rank() == 0) mine["table"] = select::DecisionTable(setting).text();
  const auto conclusions = endpoint_->exchange(mine.dump(), deadline);
  AgreedCapabilities agreed = agreed_capabilities(conclusions);
  agreed.staging = setting.staging;
  agreed.always_cma = fabric_->cma() == Cma::Always;
  agreed.threads = static_cast<uint32_t>(env().threads);
  if (agreed.reading != transports::ReadAccess::None) fabric_->all_read();
  const auto table = parse_shallow_json(conclusions.front()).at("table").get<std::string>();
  const auto decisions = select::DecisionTable::parse(table, setting);
  planner_->agree(decisions, agreed, groups_);
  log_decisions(reports, agreed, decisions, std::move(setting));
}

void Communicator::await_others(uint64_t ticket) const {
  exec::Waiter waiter(backoff_);
  while (serving_.load(std::memory_order_acquire) != ticket) {
    const double rest = waiter.turn();
    if (rest > 0) exec::nap(rest);
  }
}

/// Why no call can be made any more; Ok if calls can be made.
Status Communicator::unusable_status() const {
  if (has_failed()) return failure();
  if (!left_) return {};
  return {Code::InvalidUsage,
          fmt::format("rank {}: the communicator was destroyed before this call could run", rank())};
}

/// The executor for the call's memory.
exec::Executor& Communicator::executor_for(const Call& call) const {
  switch (call.memory) {
    case exec::MemoryKind::Host:
      return *executor_;
  }
  throw_error(Code::Unsupported, "rank {}: there is no executor for this kind of memory", rank());
}

exec::Executor* Communicator::begin(Work work, Status& status) {
  current_ = nullptr;
  if (has_failed() || left_) {
    status = unusable_status();
    if (!left_) executor_->abort();  // others may wait for it to read what came before it heard of that
    return nullptr;
  }
  try {
    if (work.front().spec.collective != Collective::SendRecv) {
      begin_collective(work.front());
      return executor_.get();
    }
    status = copy_to_self(work);  // a mistake of this rank alone: the communicator remains usable
    return status.ok() && begin_transfers(work) ? executor_.get() : nullptr;
  } catch (const Error& error) {
    status = diagnostics_.link_failed(error.code(), error.what());
  } catch (const std::exception& error) {
    status = diagnostics_.fail(Code::OutOfMemory, error.what());
  }
  diagnostics_.end();  // it may have waited for staging memory
  executor_->abort();
  return nullptr;
}

void Communicator::begin_collective(const Call& call) {
  board_->enter(++calls_, call.spec);
  diagnostics_.begin(calls_, call.spec);
  if (call.spec.is_vector) {
    board_->enter_blocks(calls_, call.blocks);
    Prepared& prepared = planner_->vector(call);
    copy_own_block(call, rank());
    return launch(prepared, call, {.tag = next_tag(prepared), .scale = scale_of(call)});
  }
  const KnownCall& known = planner_->collective(call);
  launch(*known.program, call,
         {.in = call.in,
          .out = call.out,
          .in_region = &known.in_region,
          .out_region = &known.out_region,
          .tag = next_tag(*known.program),
          .scale = scale_of(call)});
}

/// The tag of the current call, which is equal on all ranks.
uint64_t Communicator::next_tag(const Prepared& prepared) {
  digest_ = (digest_ ^ prepared.salt) * kOdd;
  return (prepared.salt + calls_) & link::kTagMask;  // salts are hashes, so no other salt is close
}

void Communicator::launch(const Prepared& prepared, const Call& call, const exec::Binding& binding) {
  current_ = &prepared;
  diagnostics_.set_algorithm(prepared.algorithm);
  fabric_->begin_call();
  executor_for(call).launch(*prepared.execution, binding);
}

/// Transfers between this rank and itself need no link: the k-th send is copied to the k-th receive.
Status Communicator::copy_to_self(Work work) const {
  std::vector<const Call*> sends, receives;
  for (const Call& call : work) {
    if (call.spec.root == rank()) (call.spec.sends ? sends : receives).push_back(&call);
  }
  if (sends.size() != receives.size()) {
    return {Code::InvalidUsage, fmt::format("rank {} sends itself {} and receives {} in one group", rank(),
                                            counted(sends.size(), "message"), receives.size())};
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    const CallSpec &sent = sends[i]->spec, &received = receives[i]->spec;
    if (sent.count == received.count && sent.type == received.type) continue;
    return {Code::InvalidUsage, fmt::format("rank {} called {} and {}", rank(), describe(sent), describe(received))};
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    const size_t bytes = sends[i]->spec.count * size_of(sends[i]->spec.type);
    if (bytes > 0) std::memmove(receives[i]->out, sends[i]->in, bytes);
  }
  return {};
}

/// False if every transfer is with this rank itself.
bool Communicator::begin_transfers(Work work) {
  group_.clear();
  for (const Call& call : work) {
    if (call.spec.root == rank()) continue;
    const uint64_t number = ++transfer_counts_[{call.spec.root, call.spec.sends}];
    board_->enter_transfer(transfer_key(call.spec.sends, call.spec.root, number), call.spec);
    group_.push_back({call, number});
  }
  diagnostics_.begin(group_);
  if (group_.empty()) return false;
  launch(planner_->transfers(group_), work.front(), {});
  return true;
}

Status Communicator::failure_status() {
  Status& status = executor_->status();
  if (has_failed()) return std::move(status);
  return diagnostics_.link_failed(status.code, status.text);  // an engine detected it first
}

Status Communicator::failure() const {
  if (!has_failed()) return {};
  const auto first = endpoint_->failure();
  return first ? Status{first->first, control::said_by(rank(), first->second)} : Status{};
}

Status Communicator::fail_internally(const std::string& what) { return diagnostics_.fail(Code::InternalError, what); }

}  // namespace tutti::comm
