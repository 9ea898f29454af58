#include "comm/rank_status.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.hpp"
#include "base/hash.hpp"
#include "comm/rank_timing.hpp"
#include "control/status/status.hpp"
#include "control/wait_table.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::comm {
namespace {

/// Milliseconds.
uint32_t stuck_for(const control::Wait& wait) {
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{wait.stuck_ms} + wait.age_ms, 4'000'000'000));
}

control::RankStatus status_of(const control::Endpoint& endpoint, const std::string& title,
                              const std::string& transports, const CallLog& log) {
  const CallBoard& board = log.board;
  control::RankStatus status{.communicator = endpoint.name(),
                             .title = title.substr(0, control::kMaxName),
                             .rank = endpoint.rank(),
                             .ranks = endpoint.ranks(),
                             .transports = transports.substr(0, control::kMaxName),
                             .call = {},
                             .awaited = {},
                             .failure = {},
                             .counts = {}};
  status.left = board.finished();  // before those entered, which are then no fewer
  status.entered = board.begun();
  status.transfers = board.transfers();
  if (const auto last = board.last()) {
    status.call = describe(*last).substr(0, control::kMaxName);
    status.is_transfer = last->collective == Collective::SendRecv ? 1 : 0;
  }
  status.sent = log.totals.sum(&CallTotal::sent);
  status.received = log.totals.sum(&CallTotal::received);
  status.waited_ms = (log.totals.sum(&CallTotal::waited) + log.totals.sum_on_windows(&CallTotal::waited)) / 1'000'000;
  status.counts = log.totals.calls();
  const auto running = board.collective(status.entered);
  if (running && status.entered > status.left) ++status.counts[static_cast<size_t>(running->collective)];
  if (const auto failure = endpoint.failure()) {
    status.failure = failure->second.substr(0, control::kMaxSmall);
    status.failure_code = static_cast<uint8_t>(failure->first);
  }
  const auto wait = control::WaitTable::of_this_process().wait_of(hash64(endpoint.name()), endpoint.rank());
  if (!wait) return status;
  status.stuck_ms = stuck_for(*wait);
  for (const control::Awaited& awaited : wait->on) {
    if (status.awaited.size() < control::RankStatus::kMaxAwaited) status.awaited.push_back(awaited.rank);
  }
  return status;
}

std::vector<control::LinkMetrics> links_of(const control::Endpoint& endpoint, const Fabric* fabric) {
  std::vector<control::LinkMetrics> links;
  if (fabric == nullptr) return links;
  for (const auto& [transport, peers] : fabric->traffic()) {
    for (const transports::Traffic& peer : peers) {
      links.push_back({.transport = transport,
                       .peer_host = endpoint.host_name(peer.peer),
                       .peer = peer.peer,
                       .lane = peer.lane,
                       .sent = peer.sent,
                       .received = peer.received,
                       .busy = peer.busy,
                       .resent = peer.resent});
    }
  }
  return links;
}

std::vector<control::LinkTiming> busiest_links(const Fabric* fabric) {
  std::vector<control::LinkTiming> links;
  if (fabric == nullptr) return links;
  for (const auto& [transport, peers] : fabric->traffic()) {
    for (const transports::Traffic& of : peers) {
      if (of.busy == 0) continue;
      links.push_back({.transport = transport, .peer = of.peer, .lane = of.lane, .sent = of.sent, .busy = of.busy});
    }
  }
  std::sort(links.begin(), links.end(), [](const auto& a, const auto& b) { return a.busy > b.busy; });
  links.resize(std::min(links.size(), control::RankTiming::kMaxLinks));
  return links;
}

control::RankMetrics metrics_of(const control::Endpoint& endpoint, const std::string& title,
                                const std::string& transports, const CallLog& log, const Fabric* fabric) {
  control::RankMetrics metrics{.communicator = endpoint.name(),
                               .title = title.substr(0, control::kMaxName),
                               .transports = transports.substr(0, control::kMaxName),
                               .rank = endpoint.rank(),
                               .ranks = endpoint.ranks(),
                               .calls = {},
                               .links = links_of(endpoint, fabric)};
  metrics.failed = endpoint.failure() ? 1 : 0;
  metrics.registered = log.registered.load(std::memory_order_relaxed);
  const auto wait = control::WaitTable::of_this_process().wait_of(hash64(endpoint.name()), endpoint.rank());
  if (wait) metrics.stuck_ms = stuck_for(*wait);
  const auto add = [&](auto call, size_t size_class, const CallTotal& total) {
    const auto read = [](const std::atomic<uint64_t>& value) { return value.load(std::memory_order_relaxed); };
    metrics.calls.push_back({.collective = name_of(call),
                             .size_class = static_cast<uint8_t>(size_class),
                             .calls = read(total.calls),
                             .bytes = read(total.bytes),
                             .sent = read(total.sent),
                             .received = read(total.received),
                             .waited = read(total.waited),
                             .traced_calls = read(total.traced_calls),
                             .traced = read(total.traced)});
  };
  log.totals.each(add);
  log.totals.each_on_windows(add);
  return metrics;
}

}  // namespace

std::string transports_of(const RankReport& report) {
  std::set<std::string> all;
  for (const auto& [relation, names] : report.fabric.routes) all.insert(names);
  return fmt::format("{}", fmt::join(all, ", "));
}

ShownRank::ShownRank(const control::Endpoint& endpoint, const std::string& title,
                     const std::shared_ptr<const CallLog>& log, const std::string& transports, const Fabric* fabric) {
  control::StatusBook::of_this_process().set_mapped(
      [] { return link::SharedMemory::of_this_process().mappable_bytes(); });
  control::StatusBook::of_this_process().add(
      this, {.communicator = endpoint.name(),
             .title = title.substr(0, control::kMaxName),
             .rank = endpoint.rank(),
             .status = [&endpoint, title, transports, log] { return status_of(endpoint, title, transports, *log); },
             .trace = [&endpoint, title, log]() -> trace::RankTrace {
               return {.communicator = endpoint.name(),
                       .title = title,
                       .rank = endpoint.rank(),
                       .ranks = endpoint.ranks(),
                       .events = log->trace.events(),
                       .call = CallTrace::call_of};
             },
             .metrics = [&endpoint, title, transports, log,
                         fabric] { return metrics_of(endpoint, title, transports, *log, fabric); },
             .timing =
                 [&endpoint, log, fabric] {
                   control::RankTiming timing = timing_of(log->trace.events().last);
                   timing.rank = endpoint.rank();
                   timing.links = busiest_links(fabric);
                   return timing;
                 }});
}

ShownRank::~ShownRank() { control::StatusBook::of_this_process().remove(this); }

}  // namespace tutti::comm
