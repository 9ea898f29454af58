#include "select/profile.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/file_kind.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"

namespace tutti::select {
namespace {

using nlohmann::json;

constexpr const char* kProfileFormat = "tutti-profile";
constexpr int kVersion = 1;
constexpr size_t kMaxMachines = 4096;

double figure(const json& value, const char* what) {
  const double number = value.get<double>();
  constexpr double kMaxSeconds = 1e6;
  if (!(number >= 0 && number <= kMaxSeconds)) {
    throw_error(Code::InvalidArgument, "{} of {} is not from 0 to {} seconds", what, number, kMaxSeconds);
  }
  return number;
}

MeasuredLink link_from(const json& link) {
  return {figure(link.at("alpha"), "a link's alpha"), figure(link.at("beta"), "a link's beta")};
}

json link_json(const MeasuredLink& link) { return {{"alpha", link.alpha}, {"beta", link.beta}}; }

void read_gpus(const json& page, Profile& profile) {
  profile.gpus = measured_gpus_from(page);
  for (const auto& [kind, link] : page.at("links").items()) profile.gpu_links[kind] = link_from(link);
}

constexpr const char* kBy = " by ";  // of candidate_name()

/// In files, a method stands beside its algorithm.
std::string candidate_from(const json& row) {
  auto algorithm = row.at("algorithm").get<std::string>();
  if (!row.contains("method")) return algorithm;
  const exec::Method* const method = exec::find_method(row["method"].get<std::string>());
  if (method != nullptr) return candidate_name(algorithm, *method);
  throw_error(Code::InvalidArgument, "there is no method '{}'", printable(row["method"].get<std::string>()));
}

json candidate_json(const std::string& name) {
  const size_t by = name.rfind(kBy);
  json row = {{"algorithm", name.substr(0, by)}};
  if (by != std::string::npos) row["method"] = name.substr(by + std::string_view(kBy).size());
  return row;
}

Profile read(const json& page) {
  if (page.at("format") != kProfileFormat || page.at("version") != kVersion) {
    throw_error(Code::InvalidArgument, "it is no profile of version {}", kVersion);
  }
  Profile profile;
  for (const auto& [kind, link] : page.at("links").items()) {
    profile.links[kind] = link_from(link);
  }
  for (const json& machine : page.value("machines", json::array())) {
    if (profile.machines.size() == kMaxMachines)
      throw_error(Code::InvalidArgument, "it is of more than {} machines", kMaxMachines);
    profile.machines.push_back(measured_machine_from(machine));
  }
  if (page.contains("gpus")) read_gpus(page["gpus"], profile);
  if (page.contains("gamma")) profile.gamma = figure(page["gamma"], "gamma");
  if (page.contains("hosts")) profile.hosts = measured_hosts_of(page["hosts"]);
  for (const json& row : page.at("measured")) {
    auto& times = profile.measured[row.at("situation").get<std::string>()]
                                  [collective_named(row.at("collective").get<std::string>())][candidate_from(row)];
    for (const json& time : row.at("times")) times[whole_number(time.at(0))] = figure(time.at(1), "a time");
  }
  return profile;
}

std::string groups_text(const plan::Grouping& groups) {
  if (groups.groups() == 1) return "";
  if (groups.smallest() == groups.largest()) return fmt::format(" in groups of {}", groups.largest());
  return fmt::format(" in {} groups of {} to {}", groups.groups(), groups.smallest(), groups.largest());
}

/// The nearest sizes of any algorithm: no more than `bytes`, and no less. 0 and the largest number: there is none.
std::pair<uint64_t, uint64_t> around(const std::map<std::string, Profile::Times>& algorithms, uint64_t bytes) {
  uint64_t low = 0, high = ~uint64_t{0};
  for (const auto& [name, times] : algorithms) {
    auto above = times.lower_bound(bytes);
    if (above != times.end()) high = std::min(high, above->first);
    if (above != times.end() && above->first == bytes) low = bytes;
    if (above != times.begin()) low = std::max(low, std::prev(above)->first);
  }
  return {low, high};
}

}  // namespace

Collective collective_named(std::string_view name) {
  for (int i = 0; i < kCollectives; ++i) {
    if (name == name_of(static_cast<Collective>(i))) return static_cast<Collective>(i);
  }
  throw_error(Code::InvalidArgument, "there is no collective '{}'", name);
}

std::string situation_of(const plan::Grouping& groups, const std::string& transports, bool sharing_cores) {
  return fmt::format("{}{}, {}{}", counted(static_cast<uint64_t>(groups.ranks()), "rank"), groups_text(groups),
                     transports, sharing_cores ? ", sharing cores" : "");
}

std::string situation_on(const plan::Grouping& groups, uint64_t count, const char* processor, const std::string& over,
                         bool host_memory) {
  return fmt::format("{}{} on {}{}{}", counted(static_cast<uint64_t>(groups.ranks()), "rank"), groups_text(groups),
                     counted(count, processor), over.empty() || count == 1 ? "" : ", " + over,
                     host_memory ? ", through memory of the host" : "");
}

bool is_on_processors(const std::string& situation) { return situation.find(" on ") != std::string::npos; }

std::string candidate_name(const std::string& algorithm, const exec::Method& method) {
  return method.is_on_host() ? algorithm : algorithm + kBy + method.name;
}

std::optional<double> Profile::seconds(const std::string& situation, Collective collective,
                                       const std::string& candidate, uint64_t bytes) const {
  const auto known = measured.find(situation);
  if (known == measured.end()) return {};
  const auto of_collective = known->second.find(collective);
  if (of_collective == known->second.end()) return {};
  const auto mine = of_collective->second.find(candidate);
  if (mine == of_collective->second.end()) return {};
  const Times& times = mine->second;
  const auto [low, high] = around(of_collective->second, bytes);
  const auto below = times.find(low), above = times.find(high);
  if (low == 0) return above == times.end() ? std::nullopt : std::optional(above->second);
  if (below == times.end()) return {};
  if (high == ~uint64_t{0}) return below->second * static_cast<double>(bytes) / static_cast<double>(low);
  if (above == times.end()) return {};
  if (low == high) return below->second;
  const auto log = [](auto number) { return std::log(std::max(1e-12, static_cast<double>(number))); };
  const double part = (log(bytes) - log(low)) / (log(high) - log(low));
  return std::exp((1 - part) * log(below->second) + part * log(above->second));
}

std::string Profile::text() const {
  json page = {
      {"format", kProfileFormat}, {"version", kVersion}, {"links", json::object()}, {"measured", json::array()}};
  for (const auto& [kind, link] : links) page["links"][kind] = link_json(link);
  if (gpus) {
    page["gpus"] = to_json(*gpus);
    page["gpus"]["links"] = json::object();
    for (const auto& [kind, link] : gpu_links) page["gpus"]["links"][kind] = link_json(link);
  }
  for (const MeasuredMachine& machine : machines) page["machines"].push_back(to_json(machine));
  if (gamma) page["gamma"] = *gamma;
  if (!hosts.empty()) page["hosts"] = to_json(hosts);
  for (const auto& [situation, collectives] : measured) {
    for (const auto& [collective, algorithms] : collectives) {
      for (const auto& [algorithm, times] : algorithms) {
        json row = candidate_json(algorithm);
        row["situation"] = situation;
        row["collective"] = name_of(collective);
        for (const auto& [bytes, seconds] : times) row["times"].push_back({bytes, seconds});
        if (!times.empty()) page["measured"].push_back(std::move(row));
      }
    }
  }
  return page.dump() + "\n";
}

std::string why_of_another(const Profile& profile, const MeasuredMachine& here) {
  const auto is_here = [&](const MeasuredMachine& machine) { return is_same(machine, here); };
  if (profile.machines.empty() || std::any_of(profile.machines.begin(), profile.machines.end(), is_here)) return "";
  const size_t others = profile.machines.size() - 1;
  return fmt::format("was measured on a machine with {}{}; this one has {}", to_text(profile.machines.front()),
                     others == 0 ? "" : fmt::format(" and {} more", others), to_text(here));
}

std::string why_of_other_gpus(const Profile& profile, const MeasuredGpus& here) {
  if (!profile.gpus) return "";
  const std::vector<std::string>& known = profile.gpus->models;
  const auto is_known = [&](const std::string& model) {
    return std::find(known.begin(), known.end(), model) != known.end();
  };
  if (std::all_of(here.models.begin(), here.models.end(), is_known)) return "";
  return fmt::format("was measured on GPUs {} (driver {}); here are {}{}", fmt::join(known, ", "), profile.gpus->driver,
                     fmt::join(here.models, ", "), here.driver.empty() ? "" : fmt::format(" (driver {})", here.driver));
}

uint64_t Profile::hash() const { return Hash().add(text()).value(); }

Profile parse_profile(const std::string& text, const std::string& name) {
  check_kind_of_file(text, name, kProfileFormat, "a profile (`tutti tune -o`)");
  try {
    return read(parse_shallow_json(text));
  } catch (const json::exception& error) {
    throw_error(Code::InvalidArgument, "{}: it is no profile of `tutti tune` ({})", name, error.what());
  } catch (const Error& error) {
    throw_error(Code::InvalidArgument, "{}: {}", name, error.what());
  }
}

}  // namespace tutti::select
