#include "tools/trace/clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

namespace tutti::tools {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max() / 4;
constexpr size_t kMaxHosts = 512;  // bounds of bounds take the cube of it

/// In which directions data must have come when a call ends.
enum class Flow { None, AllToAll, FromRoot, ToRoot };

Flow flow_of(const TracedCall& call) {
  const std::string name = name_of(call);
  if (name == "barrier" || name == "split") return Flow::AllToAll;
  if (call.bytes == 0) return Flow::None;  // of a vector call too: some of its blocks may be empty
  if (name == "all_reduce" || name == "all_gather" || name == "reduce_scatter" || name == "all_to_all") {
    return Flow::AllToAll;
  }
  if (name == "broadcast" || name == "scatter") return Flow::FromRoot;
  if (name == "reduce" || name == "gather") return Flow::ToRoot;
  return Flow::None;
}

std::optional<int64_t> root_of(const TracedCall& call) {
  const size_t at = call.text.find("root=");
  if (at == std::string::npos) return std::nullopt;
  return std::atoll(call.text.c_str() + at + 5);
}

/// A host's extremes among the ranks of a call that send, and those that receive.
struct Ends {
  int64_t last_entered = std::numeric_limits<int64_t>::min();  // of ranks that others wait for
  int64_t first_left = kUnbounded;                             // of ranks that wait for others
};

class Bounds {
 public:
  /// `middle`: of the trace, by each host's clock.
  Bounds(size_t hosts, std::vector<int64_t> middle)
      : hosts_(hosts), middle_(std::move(middle)), most_(hosts * hosts, kUnbounded) {
    for (size_t i = 0; i < hosts; ++i) at(i, i) = 0;
  }
  /// The most by which clock `a` is ahead of clock `b`: a − b, in the sense of what must be added.
  int64_t& at(size_t a, size_t b) { return most_[a * hosts_ + b]; }

  /// What left at host `b` had been entered at host `a`: entered + offset_a ≤ left + offset_b.
  void take(size_t a, int64_t entered, size_t b, int64_t left) {
    const double away = std::abs(static_cast<double>(left - middle_[b]));
    at(a, b) = std::min(at(a, b), left - entered + static_cast<int64_t>(away * kDrift));
  }

  /// Floyd and Warshall's. False if bounds contradict each other: clocks have drifted.
  bool close() {
    for (size_t k = 0; k < hosts_; ++k) {
      for (size_t i = 0; i < hosts_; ++i) {
        if (at(i, k) >= kUnbounded) continue;
        for (size_t j = 0; j < hosts_; ++j) {
          if (at(k, j) < kUnbounded) at(i, j) = std::min(at(i, j), at(i, k) + at(k, j));
        }
      }
      for (size_t i = 0; i < hosts_; ++i) {
        if (at(i, i) < 0) return false;  // at once: sums of contradictions grow without bound
      }
    }
    return true;
  }

 private:
  size_t hosts_;
  std::vector<int64_t> middle_, most_;
};

struct Span {
  int64_t first = kUnbounded, last = -kUnbounded;
  void add(int64_t time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
};

/// By host.
std::vector<Span> spans_of(const std::vector<ProcessCalls>& processes, const std::map<std::string, size_t>& hosts) {
  std::vector<Span> spans(hosts.size());
  for (const ProcessCalls& process : processes) {
    Span& span = spans[hosts.at(process.host)];
    for (const RankCalls& rank : process.ranks) {
      for (const TracedCall& call : rank.calls) {
        span.add(call.entered);
        if (call.left != 0) span.add(call.left);
      }
    }
    if (span.first > span.last) span = {process.now, process.now};
  }
  return spans;
}

using Numbered = std::tuple<std::string, uint64_t, std::string>;  // communicator, call, its text

void take_collectives(const std::vector<ProcessCalls>& processes, const std::map<std::string, size_t>& hosts,
                      Bounds& bounds) {
  std::map<Numbered, std::map<size_t, Ends>> calls;
  for (const ProcessCalls& process : processes) {
    for (const RankCalls& rank : process.ranks) {
      for (const TracedCall& call : rank.calls) {
        const Flow flow = call.kind == TracedCall::Kind::Collective ? flow_of(call) : Flow::None;
        if (flow == Flow::None || call.enqueued) continue;
        const bool is_root = root_of(call) == rank.rank;
        Ends& ends = calls[{rank.communicator, call.number, call.text}][hosts.at(process.host)];
        if (call.exact && (flow != Flow::FromRoot || is_root)) {
          ends.last_entered = std::max(ends.last_entered, call.entered);
        }
        const bool waits = flow == Flow::AllToAll || (flow == Flow::FromRoot) != is_root;
        if (call.left != 0 && call.error == 0 && waits) ends.first_left = std::min(ends.first_left, call.left);
      }
    }
  }
  for (const auto& [call, by_host] : calls) {
    for (const auto& [a, sends] : by_host) {
      if (sends.last_entered == std::numeric_limits<int64_t>::min()) continue;
      for (const auto& [b, receives] : by_host) {
        if (a != b && receives.first_left < kUnbounded) bounds.take(a, sends.last_entered, b, receives.first_left);
      }
    }
  }
}

void take_transfers(const std::vector<ProcessCalls>& processes, const std::map<std::string, size_t>& hosts,
                    Bounds& bounds) {
  using Transfer = std::tuple<std::string, int64_t, int64_t, uint64_t>;  // communicator, sender, receiver, number
  std::map<Transfer, std::pair<size_t, int64_t>> sent;                   // the host, and when it was entered
  const auto each = [&](TracedCall::Kind kind, const auto& visit) {
    for (const ProcessCalls& process : processes) {
      for (const RankCalls& rank : process.ranks) {
        for (const TracedCall& call : rank.calls) {
          if (call.kind == kind && !call.enqueued && call.bytes > 0) visit(hosts.at(process.host), rank, call);
        }
      }
    }
  };
  each(TracedCall::Kind::Send, [&](size_t host, const RankCalls& rank, const TracedCall& call) {
    if (call.exact) sent[{rank.communicator, rank.rank, call.peer, call.number}] = {host, call.entered};
  });
  each(TracedCall::Kind::Recv, [&](size_t host, const RankCalls& rank, const TracedCall& call) {
    const auto found = sent.find({rank.communicator, call.peer, rank.rank, call.number});
    if (found == sent.end() || found->second.first == host || call.left == 0 || call.error != 0) return;
    bounds.take(found->second.first, found->second.second, host, call.left);
  });
}

}  // namespace

std::map<std::string, HostClock> host_clocks(const std::vector<ProcessCalls>& processes) {
  std::map<std::string, HostClock> clocks;
  std::map<std::string, size_t> hosts;  // the first process's has number 0
  for (const ProcessCalls& process : processes) {
    if (!hosts.emplace(process.host, hosts.size()).second) continue;
    const ProcessCalls& first = processes.front();
    clocks[process.host] = {.offset = (process.wall - process.now) - (first.wall - first.now), .by_calls = false};
  }
  if (hosts.empty()) return clocks;
  clocks[processes.front().host].by_calls = true;
  if (hosts.size() == 1 || hosts.size() > kMaxHosts) return clocks;
  const std::vector<Span> spans = spans_of(processes, hosts);
  std::vector<int64_t> middle;
  for (const Span& span : spans) middle.push_back(span.first + (span.last - span.first) / 2);
  Bounds bounds(hosts.size(), middle);
  take_collectives(processes, hosts, bounds);
  take_transfers(processes, hosts, bounds);
  if (!bounds.close()) return clocks;
  for (const auto& [host, number] : hosts) {
    const int64_t most = bounds.at(number, 0), least = -bounds.at(0, number);
    if (most >= kUnbounded || least <= -kUnbounded) continue;
    const auto drift = static_cast<int64_t>(static_cast<double>(spans[number].last - spans[number].first) / 2 * kDrift);
    clocks[host] = {.offset = least + (most - least) / 2, .error = (most - least + 1) / 2 + drift, .by_calls = true};
  }
  return clocks;
}

void shift(std::vector<ProcessCalls>& processes, const std::map<std::string, HostClock>& clocks) {
  for (ProcessCalls& process : processes) {
    const int64_t offset = clocks.at(process.host).offset;
    process.now += offset;
    for (RankCalls& rank : process.ranks) {
      for (TracedCall& call : rank.calls) {
        call.entered += offset;
        if (call.left != 0) call.left += offset;
        for (TracedWait& wait : call.waits) wait.began += offset, wait.ended += offset;
      }
    }
  }
}

}  // namespace tutti::tools
