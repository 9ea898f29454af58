#include "tools/trace/report.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/format.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxRanks = 8;          // that are told one by one
constexpr double kWorthTelling = 0.001;  // of the time
constexpr double kWorthNaming = 0.01;    // of the trace: a collective that lasts so long

/// "1.2 ms".
std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string percent(double share) { return fmt::format("{:.{}f} %", share * 100, share < 0.0995 ? 1 : 0); }

/// Of the time of the ranks that may wait for one.
double share_of_others(const Lateness& of, double seconds) {
  return of.span > 0 ? seconds / (of.span * static_cast<double>(of.ranks - 1)) : 0;
}

std::string lateness_text(const Lateness& of) {
  std::string text =
      fmt::format("{}, {}: {} by {} ranks in {}{}\n", of.title, of.name, counted(of.calls, "call"), of.ranks,
                  time_text(of.span), of.weight > 1.06 ? fmt::format(", which stand for {:.0f} each", of.weight) : "");
  for (size_t i = 0; i < of.last.size(); ++i) {
    const LateRank& rank = of.last[i];
    const double lost = share_of_others(of, rank.others_lost);
    if (i == kMaxRanks || (i > 0 && lost < kWorthTelling)) {
      text += fmt::format("  {} came last in the others\n", counted(of.last.size() - i, "more rank"));
      break;
    }
    text += fmt::format("  rank {} came last in {}, by {} in the median: the others lost {} of their time to it\n",
                        rank.rank, percent(static_cast<double>(rank.calls) / static_cast<double>(of.calls)),
                        time_text(rank.late_by), percent(lost));
  }
  for (size_t i = 0; i < std::min<size_t>(3, of.waits.size()); ++i) {
    const PeerWait& wait = of.waits[i];
    if (of.span == 0 || wait.seconds / of.span < kWorthTelling) break;
    text += fmt::format("  rank {} waited for rank {} for {} of the time in calls that all had entered\n", wait.rank,
                        wait.peer, percent(wait.seconds / of.span));
  }
  return text;
}

std::string shares_text(std::vector<RankShares> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const RankShares& a, const RankShares& b) { return a.waiting * b.span > b.waiting * a.span; });
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kMaxRanks); ++i) {
    const RankShares& rank = all[i];
    if (rank.span == 0) continue;
    // Of short calls in a row most are not traced, but long waits are.
    const std::string calls =
        rank.sampled ? "" : fmt::format("{} of the time in calls, ", percent(rank.in_calls / rank.span));
    text += fmt::format("  rank {} of {}: {}{} in long waits (process {} on {})\n", rank.rank, rank.title, calls,
                        percent(rank.waiting / rank.span), rank.process, rank.host);
  }
  if (all.size() > kMaxRanks) text += fmt::format("  {} more\n", all.size() - kMaxRanks);
  return text.empty() ? "" : "The ranks that wait most:\n" + text;
}

std::string clocks_text(const std::map<std::string, HostClock>& clocks) {
  if (clocks.size() < 2) return "";
  int64_t worst = 0;
  std::string unknown;
  for (const auto& [host, clock] : clocks) {
    worst = std::max(worst, clock.error);
    if (!clock.by_calls) unknown += (unknown.empty() ? "" : ", ") + host;
  }
  std::string text = fmt::format("The clocks of {} hosts, from their calls: known to {}.\n", clocks.size(),
                                 time_text(static_cast<double>(worst) / 1e9));
  if (!unknown.empty()) {
    text += fmt::format(
        "Not those of {}, whose calls are too few, or whose clocks drift: their clocks of the day are "
        "used, and who came last may be wrong.\n",
        unknown);
  }
  return text;
}

}  // namespace

std::string trace_text(const std::vector<ProcessCalls>& processes, const std::map<std::string, HostClock>& clocks) {
  const std::vector<RankShares> ranks = shares(processes);
  size_t calls = 0, failed = 0;
  double span = 0;
  for (const RankShares& rank : ranks) calls += rank.calls, span = std::max(span, rank.span);
  for (const ProcessCalls& process : processes) {
    for (const RankCalls& rank : process.ranks) {
      for (const TracedCall& call : rank.calls) failed += call.error != 0 ? 1 : 0;
    }
  }
  std::string text =
      fmt::format("{} on {}: {} traced, in the last {}{}\n", counted(processes.size(), "process", "processes"),
                  counted(clocks.size(), "host"), counted(calls, "call"), time_text(span),
                  failed > 0 ? fmt::format("; {} failed", failed) : "");
  text += clocks_text(clocks);
  const std::vector<Lateness> all = lateness(processes);
  for (const Lateness& of : all) {
    if (of.span >= kWorthNaming * span || all.size() == 1) text += lateness_text(of);
  }
  if (all.empty()) text += "No collective has been traced on all ranks of its communicator.\n";
  return text + shares_text(ranks);
}

ordered_json trace_json(const std::vector<ProcessCalls>& processes, const std::map<std::string, HostClock>& clocks) {
  ordered_json page{{"tutti_trace_report", 1}};
  page["clocks"] = ordered_json::object();
  for (const auto& [host, clock] : clocks) {
    page["clocks"][host] = {{"offset_seconds", static_cast<double>(clock.offset) / 1e9}, {"by_calls", clock.by_calls}};
    if (clock.by_calls) page["clocks"][host]["error_seconds"] = static_cast<double>(clock.error) / 1e9;
  }
  page["collectives"] = ordered_json::array();
  for (const Lateness& of : lateness(processes)) {
    ordered_json one{{"communicator", of.communicator},
                     {"title", of.title},
                     {"name", of.name},
                     {"calls", of.calls},
                     {"ranks", of.ranks},
                     {"seconds", of.span}};
    one["last"] = ordered_json::array();
    for (const LateRank& rank : of.last) {
      one["last"].push_back({{"rank", rank.rank},
                             {"calls", rank.calls},
                             {"late_by_seconds", rank.late_by},
                             {"others_lost_seconds", rank.others_lost}});
    }
    one["waits"] = ordered_json::array();
    for (const PeerWait& wait : of.waits) {
      one["waits"].push_back({{"rank", wait.rank}, {"for", wait.peer}, {"seconds", wait.seconds}});
    }
    page["collectives"].push_back(std::move(one));
  }
  page["ranks"] = ordered_json::array();
  for (const RankShares& rank : shares(processes)) {
    page["ranks"].push_back({{"communicator", rank.communicator},
                             {"title", rank.title},
                             {"rank", rank.rank},
                             {"host", rank.host},
                             {"process", rank.process},
                             {"calls", rank.calls},
                             {"seconds", rank.span},
                             {"in_calls_seconds", rank.in_calls},
                             {"waiting_seconds", rank.waiting}});
  }
  return page;
}

}  // namespace tutti::tools
