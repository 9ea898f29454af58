#include "select/measured_hosts.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.hpp"
#include "base/printable.hpp"

namespace tutti::select {
namespace {

using nlohmann::json;

constexpr size_t kMaxHosts = 1024, kMaxPairs = kMaxHosts * (kMaxHosts - 1) / 2, kMaxHostName = 255;
constexpr double kMaxAlpha = 3600, kMinBeta = 1e-15, kMaxBeta = 1;  // seconds; from 1 B/s to 1 PB/s

double figure(const json& value, const char* what, double least, double most) {
  const auto number = value.get<double>();
  if (!(number >= least && number <= most)) {
    throw_error(Code::InvalidArgument, "{} of {} is not from {} to {} seconds", what, number, least, most);
  }
  return number;
}

constexpr const char* kInDoubt = " (in doubt: no two measurements agreed)";

double beta_of(const json& object) { return figure(object.at("beta"), "a beta between hosts", kMinBeta, kMaxBeta); }

std::string name_from(const json& value, const char* what) {
  const auto& name = value.get_ref<const std::string&>();
  if (name.empty() || name.size() > kMaxHostName) {
    throw_error(Code::InvalidArgument, "{} has {} bytes; it has 1 to {}", what, name.size(), kMaxHostName);
  }
  return printable(name);
}

std::string host_from(const json& value) { return name_from(value, "a host's name"); }

void check_count(const json& list, size_t most, const char* what) {
  if (list.size() > most) throw_error(Code::InvalidArgument, "{} {}; at most {} are read", list.size(), what, most);
}

MeasuredPair pair_of(const json& object) {
  MeasuredPair pair{.a = host_from(object.at("a")),
                    .b = host_from(object.at("b")),
                    .alpha = figure(object.at("alpha"), "an alpha between hosts", 0, kMaxAlpha),
                    .beta = beta_of(object),
                    .doubtful = object.value("doubtful", false)};
  if (pair.a == pair.b) throw_error(Code::InvalidArgument, "host {} is paired with itself", pair.a);
  return pair;
}

MeasuredIsland island_of(const json& object, std::set<std::string>& placed) {
  MeasuredIsland island{.hosts = {}, .beta = beta_of(object)};
  check_count(object.at("hosts"), kMaxHosts, "hosts of an island");
  for (const json& host : object.at("hosts")) {
    island.hosts.push_back(host_from(host));
    if (!placed.insert(island.hosts.back()).second) {
      throw_error(Code::InvalidArgument, "host {} is in two islands", island.hosts.back());
    }
  }
  return island;
}

}  // namespace

void MeasuredHosts::update(const MeasuredHosts& newer) {
  if (newer.empty()) return;
  if (newer.transport != transport) *this = {};
  transport = newer.transport;
  const auto is_new = [&](const std::string& host) { return newer.links.contains(host); };
  std::erase_if(pairs, [&](const MeasuredPair& pair) { return is_new(pair.a) && is_new(pair.b); });
  std::erase_if(islands, [&](const MeasuredIsland& island) {
    return std::any_of(island.hosts.begin(), island.hosts.end(), is_new);
  });
  pairs.insert(pairs.end(), newer.pairs.begin(), newer.pairs.end());
  islands.insert(islands.end(), newer.islands.begin(), newer.islands.end());
  for (const auto& [host, beta] : newer.links) links[host] = beta;
  std::erase_if(doubtful, is_new);
  doubtful.insert(newer.doubtful.begin(), newer.doubtful.end());
}

json to_json(const MeasuredHosts& hosts) {
  json page = {
      {"transport", hosts.transport}, {"pairs", json::array()}, {"links", json::array()}, {"islands", json::array()}};
  for (const MeasuredPair& pair : hosts.pairs) {
    page["pairs"].push_back({{"a", pair.a}, {"b", pair.b}, {"alpha", pair.alpha}, {"beta", pair.beta}});
    if (pair.doubtful) page["pairs"].back()["doubtful"] = true;
  }
  for (const auto& [host, beta] : hosts.links) {
    page["links"].push_back({{"host", host}, {"beta", beta}});
    if (hosts.doubtful.contains(host)) page["links"].back()["doubtful"] = true;
  }
  for (const MeasuredIsland& island : hosts.islands) {
    page["islands"].push_back({{"hosts", island.hosts}, {"beta", island.beta}});
  }
  return page;
}

MeasuredHosts measured_hosts_of(const json& page) {
  MeasuredHosts hosts{.transport = name_from(page.at("transport"), "a transport's name")};
  check_count(page.at("pairs"), kMaxPairs, "pairs of hosts");
  check_count(page.at("links"), kMaxHosts, "links of hosts");
  check_count(page.at("islands"), kMaxHosts, "islands");
  for (const json& pair : page.at("pairs")) hosts.pairs.push_back(pair_of(pair));
  for (const json& link : page.at("links")) {
    const std::string host = host_from(link.at("host"));
    hosts.links[host] = beta_of(link);
    if (link.value("doubtful", false)) hosts.doubtful.insert(host);
  }
  std::set<std::string> placed;
  for (const json& island : page.at("islands")) hosts.islands.push_back(island_of(island, placed));
  return hosts;
}

std::string rate_text(double bytes_per_second) {
  return bytes_per_second < 999.5e6 ? fmt::format("{:.3g} MB/s", bytes_per_second * 1e-6)
                                    : fmt::format("{:.3g} GB/s", bytes_per_second * 1e-9);
}

std::vector<std::string> lines_of(const MeasuredHosts& hosts) {
  constexpr double kSlower = 1.25;
  double fastest = kMaxBeta;
  for (const auto& [host, beta] : hosts.links) fastest = std::min(fastest, beta);
  std::vector<std::string> lines;
  for (const auto& [host, beta] : hosts.links) {
    const bool is_doubtful = hosts.doubtful.contains(host);
    if (beta <= kSlower * fastest && !is_doubtful) continue;
    lines.push_back(fmt::format("link {}: {}{}", host, rate_text(1 / beta), is_doubtful ? kInDoubt : ""));
  }
  double fastest_pair = kMaxBeta;
  for (const MeasuredPair& pair : hosts.pairs) fastest_pair = std::min(fastest_pair, pair.beta);
  for (const MeasuredPair& pair : hosts.pairs) {
    const bool apart = std::any_of(hosts.islands.begin(), hosts.islands.end(), [&](const MeasuredIsland& island) {
      return std::ranges::count(island.hosts, pair.a) != std::ranges::count(island.hosts, pair.b);
    });
    const auto link = [&](const std::string& host) {
      const auto known = hosts.links.find(host);
      return known == hosts.links.end() ? kMaxBeta : known->second;
    };
    const double of_links = std::max({fastest_pair, link(pair.a), link(pair.b)});
    if (!pair.doubtful && (apart || pair.beta <= kSlower * of_links)) continue;
    lines.push_back(
        fmt::format("link {} – {}: {}{}", pair.a, pair.b, rate_text(1 / pair.beta), pair.doubtful ? kInDoubt : ""));
  }
  for (const MeasuredIsland& island : hosts.islands) {
    lines.push_back(fmt::format("link of island {}: {}", fmt::join(island.hosts, ", "), rate_text(1 / island.beta)));
  }
  return lines;
}

std::string doubts_of(const MeasuredHosts& hosts) {
  std::vector<std::string> doubts;
  for (const MeasuredPair& pair : hosts.pairs) {
    if (pair.doubtful) doubts.push_back(fmt::format("{} – {} ({} at best)", pair.a, pair.b, rate_text(1 / pair.beta)));
  }
  for (const std::string& host : hosts.doubtful) {
    const auto known = hosts.links.find(host);
    const double beta = known == hosts.links.end() ? kMaxBeta : known->second;
    doubts.push_back(fmt::format("all links of {} ({} at best)", host, rate_text(1 / beta)));
  }
  constexpr size_t kMostShown = 8;
  const size_t shown = std::min(doubts.size(), kMostShown);
  std::string text = fmt::format("{}", fmt::join(doubts.begin(), doubts.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < doubts.size()) text += fmt::format(" and {} more", doubts.size() - shown);
  return text;
}

}  // namespace tutti::select
