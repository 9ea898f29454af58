#include "tools/check/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace tutti::tools {
namespace {

/// The shortest round trip from one host to another by TCP; 0: not reached.
double round_trip(const CheckReport& report, int from, int to) {
  double shortest = 0;
  if (static_cast<size_t>(from) >= report.reached.size()) return 0;
  for (const Reached& reached : report.reached[static_cast<size_t>(from)]) {
    if (reached.host != to || !reached.why_not.empty()) continue;
    if (shortest == 0 || reached.round_trip < shortest) shortest = reached.round_trip;
  }
  return shortest;
}

std::string microseconds(double seconds) { return seconds > 0 ? fmt::format("{:.1f}", seconds * 1e6) : "-"; }
std::string gigabytes(double bytes) { return bytes > 0 ? fmt::format("{:.2f}", bytes / 1e9) : "-"; }

/// Rows of cells, each column as wide as its widest cell. The first `left` columns are flush left.
void print_table(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap = i == 0 ? "" : "  ";
      line +=
          i < left ? fmt::format("{}{:<{}}", gap, row[i], widths[i]) : fmt::format("{}{:>{}}", gap, row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

}  // namespace

void print_hosts(const CheckReport& report) {
  std::vector<std::vector<std::string>> rows{
      {"# host", "its name", "tutti", "transports", "addresses", "ranks", "cores", "GB free"}};
  for (const CheckedHost& host : report.hosts) {
    if (host.facts) {
      const HostFacts& facts = *host.facts;
      rows.push_back({"  " + host.name, facts.name, facts.version, fmt::format("{}", fmt::join(facts.transports, ",")),
                      fmt::format("{}", fmt::join(facts.addresses, ",")), std::to_string(host.ranks),
                      std::to_string(facts.cores), fmt::format("{:.1f}", static_cast<double>(facts.memory) / 1e9)});
    } else {
      rows.push_back({"  " + host.name, "?", "?", "?", "?", std::to_string(host.ranks), "?", "?"});
    }
  }
  print_table(rows, 5);
}

void print_pairs(const CheckReport& report) {
  if (report.reached.empty()) return;
  std::vector<std::vector<std::string>> rows{
      {"# from", "to", "transport", "ping us", "latency us", "GB/s there", "GB/s back"}};
  std::map<std::pair<int, int>, const PairFigures*> measured;
  for (const PairFigures& pair : report.pairs) measured[{pair.from, pair.to}] = &pair;
  for (int from = 0; from < static_cast<int>(report.hosts.size()); ++from) {
    for (int to = from + 1; to < static_cast<int>(report.hosts.size()); ++to) {
      const auto found = measured.find({from, to});
      const PairFigures pair = found == measured.end() ? PairFigures{from, to, 0, 0, 0, "-"} : *found->second;
      const double there = round_trip(report, from, to), back = round_trip(report, to, from);
      rows.push_back({"  " + report.hosts[static_cast<size_t>(from)].name, report.hosts[static_cast<size_t>(to)].name,
                      pair.transport, there == 0 || back == 0 ? "none" : microseconds(std::min(there, back)),
                      microseconds(pair.latency), gigabytes(pair.bandwidth), gigabytes(pair.back)});
    }
  }
  fmt::print("\n");
  print_table(rows, 3);
  if (!report.pairs.empty()) {
    fmt::print("# ping: a round trip by TCP alone; latency: 8 bytes one way, GB/s: messages of 4 MiB, both by tutti\n");
  }
}

void print_verdict(const CheckReport& report) {
  std::fflush(stdout);
  for (const std::string& remark : report.remarks) fmt::print(stderr, "note: {}\n", remark);
  for (const std::string& problem : report.problems) fmt::print(stderr, "wrong: {}\n", problem);
  if (report.problems.empty()) fmt::print("\n{} hosts see each other\n", report.hosts.size());
}

nlohmann::ordered_json to_json(const CheckReport& report) {
  nlohmann::ordered_json json{
      {"ok", report.problems.empty()}, {"problems", report.problems}, {"remarks", report.remarks}};
  json["hosts"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < report.hosts.size(); ++i) {
    const CheckedHost& host = report.hosts[i];
    nlohmann::ordered_json row{{"host", host.name}, {"ranks", host.ranks}};
    row["facts"] = host.facts ? to_json(*host.facts) : nlohmann::ordered_json();
    if (i < report.reached.size()) row["reached"] = to_json(report.reached[i]);
    json["hosts"].push_back(row);
  }
  json["pairs"] = to_json(report.pairs);
  return json;
}

}  // namespace tutti::tools
