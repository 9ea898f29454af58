#include "tools/top/rates.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "tools/status/show.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

/// What is counted of a rank on one communicator.
struct Counts {
  double calls = 0, sent = 0, received = 0;
  double waited = 0;  // a wait that lasts counts too
};

Counts counts_of(const json& rank) {
  return {.calls = rank.at("entered").get<double>() + rank.at("transfers").get<double>(),
          .sent = rank.at("sent_bytes").get<double>(),
          .received = rank.at("received_bytes").get<double>(),
          .waited = rank.at("waited_seconds").get<double>() + rank.value("waits_seconds", 0.0)};
}

using Key = std::pair<std::string, int64_t>;  // communicator, rank

std::map<Key, Counts> all_counts(const json& page) {
  std::map<Key, Counts> all;
  for (const json& process : page.at("processes")) {
    if (process.at("state") != "answers") continue;
    for (const json& rank : process.at("ranks")) {
      all[{rank.at("communicator").get<std::string>(), rank.at("rank").get<int64_t>()}] = counts_of(rank);
    }
  }
  return all;
}

/// The communicator with most ranks; of several the first.
std::string largest(const json& page, std::string& title) {
  int64_t most = 0;
  std::string name;
  for (const json& process : page.at("processes")) {
    for (const json& rank : process.at("ranks")) {
      const int64_t ranks = rank.value("ranks", int64_t{0});
      if (ranks <= most) continue;
      most = ranks;
      name = rank.at("communicator").get<std::string>();
      title = rank.at("title").get<std::string>();
    }
  }
  return name;
}

/// Adds what `rank` has done since `before`.
void add(TopRow& row, const json& rank, const std::map<Key, Counts>& before, double seconds) {
  const auto was = before.find({rank.at("communicator").get<std::string>(), rank.at("rank").get<int64_t>()});
  const Counts now = counts_of(rank), then = was == before.end() ? now : was->second;
  row.calls += (now.calls - then.calls) / seconds;
  row.sent += (now.sent - then.sent) / seconds;
  row.received += (now.received - then.received) / seconds;
  row.waiting += std::clamp((now.waited - then.waited) / seconds, 0.0, 1.0);
  if (rank.contains("failure")) row.state = "failed";
}

/// What the rank does now, if nothing is known yet, or if it waits.
void set_call(TopRow& row, const json& rank, bool first) {
  const bool waits = rank.contains("waits_for");
  if (!first && !waits) return;
  row.call = rank.at("call").get<std::string>();
  row.whom = waits ? ranges(rank.at("waits_for").get<std::vector<int64_t>>()) : "";
  if (waits && row.whom.empty()) row.whom = "others";
}

void add_rows(const json& process, const std::string& main, const std::map<Key, Counts>& before, double seconds,
              TopTable& table) {
  const json& ranks = process.at("ranks");
  const auto is_main = [&](const json& rank) { return rank.at("communicator") == main; };
  const auto mains = std::count_if(ranks.begin(), ranks.end(), is_main);
  for (const json& rank : ranks) {
    if (mains > 0 && !is_main(rank)) continue;
    TopRow row{.rank = rank.at("rank").get<int64_t>(),
               .host = process.at("host").get<std::string>(),
               .process = process.at("process").get<uint32_t>(),
               .state = process.at("state").get<std::string>()};
    if (row.state == "answers") {
      set_call(row, rank, true);
      for (const json& one : ranks) {
        if (mains > 1 ? one != rank : false) continue;
        add(row, one, before, seconds);
        if (mains <= 1) set_call(row, one, false);
      }
      row.waiting = std::min(row.waiting, 1.0);
    }
    table.rows.push_back(std::move(row));
    if (mains == 0) return;  // of a process that is not in the largest one, one row
  }
}

/// The waits in the largest communicator, and how many ranks wait for each one.
void add_waits(const json& page, const std::string& main, TopTable& table) {
  std::map<int64_t, size_t> waiters;
  for (const json& process : page.at("processes")) {
    for (const json& rank : process.at("ranks")) {
      if (rank.at("communicator") != main || !rank.contains("waits_for")) continue;
      table.waits.emplace_back(rank.at("rank").get<int64_t>(), rank.at("waits_for").get<std::vector<int64_t>>());
      for (const int64_t awaited : table.waits.back().second) ++waiters[awaited];
    }
  }
  std::sort(table.waits.begin(), table.waits.end());
  for (TopRow& row : table.rows) row.awaited_by = waiters[row.rank];
}

/// "1.23", "12.3", "123".
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string bar(double share) {
  constexpr size_t kWidth = 10;
  const auto full = static_cast<size_t>(share * kWidth + 0.5);
  return std::string(full, '#') + std::string(kWidth - std::min(full, kWidth), '-');
}

/// The start of a text; what is cut off shows.
std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width > 1 ? width - 1 : 0) + (width > 0 ? "~" : "");
}

}  // namespace

std::string doing_text(const TopRow& row) {
  if (row.state == "gone") return "its process is gone";
  if (row.state == "stopped") return "its process is stopped";
  if (row.state == "silent") return "its process does not answer";
  const std::string call = row.state == "failed" ? "failed" : row.call.empty() ? "no call yet" : row.call;
  return row.whom.empty() ? call : fmt::format("waits for {}: {}", row.whom, call);
}

const char* name_of(TopOrder order) {
  const char* const names[] = {"the worst first", "by waiting", "by calls", "by bytes sent", "by rank"};
  return names[static_cast<size_t>(order)];
}

TopTable top_table(const json& before, const json& now, double seconds) {
  TopTable table;
  const std::string main = largest(now, table.title);
  const std::map<Key, Counts> then = all_counts(before);
  std::set<std::string> hosts;
  for (const json& process : now.at("processes")) {
    hosts.insert(process.at("host").get<std::string>());
    add_rows(process, main, then, seconds, table);
  }
  table.processes = now.at("processes").size();
  table.hosts = hosts.size();
  add_waits(now, main, table);
  table.verdicts = now.at("verdicts").get<std::vector<std::string>>();
  return table;
}

void sort_rows(std::vector<TopRow>& rows, TopOrder order) {
  const auto worth = [order](const TopRow& row) -> std::tuple<double, double, double> {
    switch (order) {
      case TopOrder::Worst:
        return {row.state == "answers" ? 0 : 1, static_cast<double>(row.awaited_by), row.waiting};
      case TopOrder::Waiting:
        return {row.waiting, 0, 0};
      case TopOrder::Calls:
        return {row.calls, 0, 0};
      case TopOrder::Sent:
        return {row.sent, 0, 0};
      case TopOrder::Rank:
        break;
    }
    return {};
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const TopRow& a, const TopRow& b) {
    const auto of_a = worth(a), of_b = worth(b);
    return of_a != of_b ? of_a > of_b : a.rank < b.rank;
  });
}

std::string top_text(const TopTable& table, TopOrder order, size_t width, size_t height) {
  std::vector<std::string> lines = {fmt::format("{}: {} on {}; ranks {}", table.title.empty() ? "a job" : table.title,
                                                counted(table.processes, "process", "processes"),
                                                counted(table.hosts, "host"), name_of(order))};
  for (size_t i = 0; i < std::min<size_t>(2, table.verdicts.size()); ++i) lines.push_back(table.verdicts[i]);
  lines.push_back(fmt::format("{:>5} {:<12} {:>8} {:>8} {:>8} {:>5} {:<10} {}", "rank", "host", "calls/s", "GB/s out",
                              "GB/s in", "waits", "", "call"));
  std::vector<TopRow> rows = table.rows;
  sort_rows(rows, order);
  for (const TopRow& row : rows) {
    if (height > 0 && lines.size() + 2 >= height && &row != &rows.back()) {
      lines.push_back(fmt::format("({} ranks in all)", rows.size()));
      break;
    }
    lines.push_back(fmt::format("{:>5} {:<12} {:>8.0f} {:>8} {:>8} {:>3.0f} % {} {}", row.rank, cut(row.host, 12),
                                row.calls, three_digits(row.sent / 1e9), three_digits(row.received / 1e9),
                                row.waiting * 100, bar(row.waiting), doing_text(row)));
  }
  std::string text;
  for (const std::string& line : lines) text += cut(line, width) + "\n";
  return text;
}

}  // namespace tutti::tools
