#include "tools/status/show.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/counted.hpp"
#include "base/format.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

/// Ranks of a communicator in the same state.
struct Line {
  int64_t order = 0;  ///< calls entered; a rank of which nothing is known comes first
  std::vector<int64_t> ranks;
  double seconds = 0;  ///< the longest
  std::string where;   ///< of the first
};

/// What a rank does, but for how long.
std::string doing(const json& process, const json& rank) {
  const std::string state = process.at("state");
  if (state == "gone") return "its process is gone";
  if (state == "stopped") return "its process is stopped";
  if (state == "silent") return "its process does not answer";
  if (rank.contains("failure")) return fmt::format("failed: {}", rank.at("failure").get<std::string>());
  const auto entered = rank.at("entered").get<uint64_t>(), left = rank.at("left").get<uint64_t>();
  const auto call = rank.at("call").get<std::string>();
  const bool transfer = rank.value("call_is_transfer", false);
  const std::string named = entered == 0 || transfer ? call : fmt::format("{}, call {}", call, entered);
  if (rank.contains("waits_for")) {
    const auto awaited = rank.at("waits_for").get<std::vector<int64_t>>();
    const std::string whom = awaited.empty()       ? "others"
                             : awaited.size() == 1 ? "rank " + ranges(awaited)
                                                   : "one of ranks " + ranges(awaited);
    return fmt::format("in {}, waiting for {}", named, whom);
  }
  if (transfer) return fmt::format("in or after {}", named);
  if (left < entered) return fmt::format("in {}", named);
  return call.empty() ? "no call yet" : fmt::format("after {}", named);
}

std::string seconds_text(const std::string& doing, double seconds) {
  if (seconds < 1) return "";
  if (doing.starts_with("failed")) return "";
  if (doing.starts_with("its process")) return fmt::format(", last heard of {:.0f} s ago", seconds);
  return fmt::format("{}for {:.0f} s", doing.starts_with("after") ? ", in no call " : ", ", seconds);
}

}  // namespace

std::string ranges(std::vector<int64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) text += fmt::format("{}{}", end - i > 2 ? "-" : ", ", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string status_text(const json& page) {
  std::map<std::string, std::map<std::string, Line>> communicators;  // by title, then by what ranks do
  std::map<std::string, int64_t> sizes;
  size_t silent = 0;
  uint64_t omitted = 0;
  for (const json& process : page.at("processes")) {
    if (process.at("state") != "answers") ++silent;
    omitted += process.value("omitted", uint64_t{0});
    for (const json& rank : process.at("ranks")) {
      const std::string name =
          fmt::format("{} ({})", rank.at("title").get<std::string>(), rank.at("communicator").get<std::string>());
      sizes[name] = std::max(sizes[name], rank.value("ranks", int64_t{0}));
      Line& line = communicators[name][doing(process, rank)];
      if (line.ranks.empty()) {
        line.order = rank.value("entered", int64_t{-1});
        line.where = fmt::format("process {} on {}", process.at("process").get<int64_t>(),
                                 process.at("host").get<std::string>());
      }
      line.ranks.push_back(rank.at("rank"));
      const double seconds = process.at("state") == "answers"
                                 ? rank.value("waits_seconds", rank.value("still_seconds", 0.0))
                                 : process.value("heard_seconds", 0.0);
      line.seconds = std::max(line.seconds, seconds);
    }
  }
  std::string text = fmt::format(
      "process {} on {}: {} of its job{}\n", page.at("process").get<int64_t>(), page.at("host").get<std::string>(),
      page.at("processes").size() == 1 ? "one process" : counted(page.at("processes").size(), "process", "processes"),
      silent > 0 ? fmt::format(", {} without an answer", silent) : "");
  for (const auto& [name, lines] : communicators) {
    text += fmt::format("{}: {}\n", name, counted(static_cast<uint64_t>(sizes[name]), "rank"));
    std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.order < b.second.order; });
    for (const auto& [what, line] : sorted) {
      text +=
          fmt::format("  {} {}: {}{}{}\n", line.ranks.size() == 1 ? "rank" : "ranks", ranges(line.ranks), what,
                      seconds_text(what, line.seconds), line.ranks.size() == 1 ? fmt::format(" ({})", line.where) : "");
    }
  }
  if (omitted > 0) text += fmt::format("{} left out: answers had no room for them\n", counted(omitted, "rank"));
  for (const json& verdict : page.at("verdicts")) text += verdict.get<std::string>() + "\n";
  if (page.at("verdicts").empty()) text += "No rank is known to wait for another.\n";
  return text;
}

}  // namespace tutti::tools
