// A communicator's log messages, and the information on its last call.
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <set>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "comm/communicator.hpp"
#include "comm/slow_paths.hpp"
#include "control/status/trace_file.hpp"
#include "link/cma.hpp"
#include "select/entries.hpp"
#include "select/explain.hpp"
#include "select/forced.hpp"
#include "select/select.hpp"
#include "topo/graph_json.hpp"

namespace tutti::comm {
namespace {

int ptrace_scope() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

bool reads_itself() {
  const volatile unsigned char word = 1;
  unsigned char copy = 0;
  return link::cma_read(getpid(), const_cast<const unsigned char*>(&word), &copy, 1) == 0;
}

PathFacts facts_of(const control::Endpoint& endpoint, const Fabric& fabric, const Agreement& agreed) {
  PathFacts facts{.ranks_per_core = agreed.inputs.oversubscription, .cma_wanted = fabric.cma() != Cma::Off};
  for (Rank rank = 0; rank < endpoint.ranks(); ++rank) {
    const RankReport& report = agreed.reports[static_cast<size_t>(rank)];
    facts.ranks.push_back({endpoint.process_id(rank).host, report.host, report.boot});
    const auto processes = report.fabric.routes.find(kBetweenProcesses);
    facts.processes_meet = facts.processes_meet || (processes != report.fabric.routes.end() &&
                                                    processes->second.find("shm") != std::string::npos);
  }
  facts.cma_works = agreed.inputs.hand_over.reading != transports::ReadAccess::None;
  if (!facts.cma_works) {
    facts.cma_on_itself = reads_itself();
    facts.ptrace_scope = ptrace_scope();
  }
  const auto& mine = agreed.reports[static_cast<size_t>(endpoint.rank())].fabric.routes;
  const auto between = mine.find(kBetweenHosts);
  if (between == mine.end()) return facts;
  facts.processes_meet = false;  // what all ranks can read says nothing about those of one host
  facts.between = between->second;
  facts.why_no_better = fabric.why_no_better(kBetweenHosts);
  if (facts.between.find("tcp") != std::string::npos) facts.ports = topo::read_ports();
  return facts;
}

/// False from the second time on in this process: a program may make many communicators.
bool is_new(const std::string& text) {
  static std::mutex* const kMutex = new std::mutex;
  static auto* const kSaid = new std::set<std::string>;
  const std::lock_guard lock(*kMutex);
  return kSaid->insert(text).second;
}

void tell_slow_paths(const PathFacts& facts) {
  for (const std::string& text : slow_paths(facts)) {
    if (is_new(text)) log_warn("slow path: {}", text);
  }
  const std::string sharing = shared_cores(facts);
  if (sharing.empty() || !(env().explain || log_enabled(LogLevel::Debug))) return;
  if (is_new(sharing)) log_info("slow path: {}", sharing);
}

/// Of methods of GPUs that TUTTI_METHOD forces where no rank uses GPUs.
void tell_unused_methods(const Agreement& agreed) {
  for (const RankReport& report : agreed.reports) {
    for (const auto& [name, backend] : report.backends) {
      if (backend.why_not.empty()) return;
    }
  }
  const std::string text = select::not_of_host(agreed.inputs.forced_methods);
  if (!text.empty() && is_new(text)) log_warn("{}", text);
}

/// Of what TUTTI_ALGO demands: for each communicator, since the next one may have it.
void tell_unused_demands(const std::vector<std::unique_ptr<BackendCalls>>& all) {
  for (const auto& on : all) {
    if (!on->refused().empty()) continue;
    for (const std::string& text : select::unused_demands(on->inputs())) log_warn("{}", text);
  }
}

}  // namespace

void Communicator::log_decisions(Agreement agreed) {
  if (rank() == 0 && !env().topo_dump.empty() && ranks() > 1) {
    try {
      write_private(env().topo_dump, topo::to_json(agreed.graph));
    } catch (const Error& error) {  // a job runs without it
      log_warn("TUTTI_TOPO_DUMP_FILE: the topology is not written: {}", error.what());
    }
  }
  if (rank() == 0 && ranks() > 1) tell_unused_methods(agreed);
  if (rank() == 0) tell_unused_demands(on_);
  if (rank() == 0 && log_enabled(LogLevel::Warn)) tell_slow_paths(facts_of(*endpoint_, *fabric_, agreed));
  if (rank() == 0 && log_enabled(LogLevel::Info)) {
    log_info("{}", summary(*endpoint_, *fabric_, groups_, agreed));
  }
  const bool explains = env().explain && rank() == 0;
  if (!explains && !log_enabled(LogLevel::Debug)) return;
  for (const auto& on : on_) {
    if (!on->refused().empty()) continue;
    const bool is_host = on == on_.front();
    const std::string machine =
        rank() == 0 ? select::machine_text(on->inputs(), is_host ? agreed.notes : on->notes()) : "";
    topo::Graph graph = !explains ? topo::Graph() : is_host ? std::move(agreed.graph) : on->take_graph();
    decision_logs_.push_back(std::make_unique<DecisionLog>(rank(), on->inputs(), machine, std::move(graph)));
    on->planner().on_new_program([this, log = decision_logs_.back().get(), &served = *on](const Prepared& made) {
      log->log_first(made.key.spec, info_of(made, served));
    });
  }
}

CallInfo Communicator::info_of(const Prepared& made, const BackendCalls& on) const {
  return call_info(made, [&](Rank peer) {
    const std::string own = on.backend().transport_to(peer);
    return own.empty() ? fabric_->transport_to(peer) : own;
  });
}

CallInfo Communicator::last_call() {
  if (current_ == nullptr) return {.algorithm = "none", .method = "none", .transport = "none", .delivery = "none"};
  CallInfo info = info_of(*current_, *current_on_);
  info.model = predicted(*current_, *current_on_);
  return info;
}

/// What the cost model says of the row that the call has: not of the best one, which a profile may have overruled.
double Communicator::predicted(const Prepared& made, const BackendCalls& on) {
  const CallSpec& spec = made.key.spec;
  if (spec.is_vector || spec.collective == Collective::SendRecv || made.row.algorithm == nullptr) return 0;
  const uint64_t bytes = spec.count * size_of(spec.type);
  for (const auto& candidate : select::candidates(spec.collective, bytes, on.inputs(), {spec.type, spec.op})) {
    const bool same = candidate.row.algorithm == made.row.algorithm && candidate.row.method == made.row.method;
    if (same && candidate.rejected.empty()) return candidate.predicted.seconds();
  }
  return 0;
}

/// The file that TUTTI_TRACE_FILE asks for, once for each communicator of the process that has failed: its ranks here
/// are all in it.
void Communicator::leave_trace() const {
  if (env().trace_file.empty() || trace_left_.exchange(true)) return;
  if (!is_new("trace of " + endpoint_->name())) return;
  try {
    log_info("rank {}: the last calls of this process are in {}", rank(), control::write_trace(env().trace_file));
  } catch (const std::exception& error) {  // the communicator's own error is what counts
    log_warn("rank {}: TUTTI_TRACE_FILE is not written: {}", rank(), error.what());
  }
}

void Communicator::write_trace(const std::string& path) { control::write_trace(path); }

/// For a profiler or the log.
void Communicator::run_noted(Window& window, const OneSided& call) {
  trace::ProfilerRange range;
  if (trace::profiler_is_attached() && !has_failed() && is_live()) {
    range = trace::ProfilerRange(fmt::format("{}, rank {}: {}", title(), rank(), describe(call)), 0);
  }
  const auto start = std::chrono::steady_clock::now();
  run_unnoted(window, call);
  range.end();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log_trace("rank {}: {}: {:.1f} us", rank(), describe(call), seconds * 1e6);
}

Communicator::Noted Communicator::note(Work work) const noexcept {
  Noted noted{.start = std::chrono::steady_clock::now(), .range = {}};
  if (!trace::profiler_is_attached() || has_failed() || !is_live()) return noted;  // the call will not begin
  try {
    const CallSpec& first = work.front().spec;
    noted.range = trace::ProfilerRange(fmt::format("{}, rank {}: {}{}", title(), rank(), describe(first),
                                                   work.size() > 1 ? fmt::format(" and {} more", work.size() - 1) : ""),
                                       first.collective == Collective::SendRecv ? 0 : calls_ + 1);
  } catch (const std::exception&) {  // no memory: the call counts, not its name
  }
  return noted;
}

void Communicator::note_end(Noted& noted, Work work, const Status& status) noexcept try {
  noted.range.end();
  if (!log_enabled(LogLevel::Trace)) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - noted.start).count();
  const CallInfo info = last_call();
  for (const Call& call : work) {
    const bool numbered = call.spec.collective != Collective::SendRecv;
    log_trace("rank {}: {}{}: {} over {}, {:.1f} us{}{}", rank(), numbered ? fmt::format("call {} ", calls_) : "",
              describe(call.spec), info.algorithm, info.transport, seconds * 1e6,
              status.ok() ? "" : ", failed: ", status.text);
  }
} catch (const std::exception&) {  // no memory for a line of the log
}

}  // namespace tutti::comm
