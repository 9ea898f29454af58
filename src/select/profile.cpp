#include "select/profile.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/shallow_json.hpp"

namespace tutti::select {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "tutti-profile";
constexpr int kVersion = 1;

double figure(const json& value, const char* what) {
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < 0) throw_error(Code::InvalidArgument, "{} is negative or not finite", what);
  return number;
}

Profile read(const json& page) {
  if (page.at("format") != kFormat || page.at("version") != kVersion) {
    throw_error(Code::InvalidArgument, "it is no profile of version {}", kVersion);
  }
  Profile profile;
  for (const auto& [kind, link] : page.at("links").items()) {
    profile.links[kind] = {figure(link.at("alpha"), "a link's alpha"), figure(link.at("beta"), "a link's beta")};
  }
  if (page.contains("gamma")) profile.gamma = figure(page["gamma"], "gamma");
  for (const json& row : page.at("measured")) {
    auto& times = profile.measured[row.at("situation").get<std::string>()][collective_named(
        row.at("collective").get<std::string>())][row.at("algorithm").get<std::string>()];
    for (const json& time : row.at("times")) times[whole_number(time.at(0))] = figure(time.at(1), "a time");
  }
  return profile;
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
  const std::string in_groups =
      groups.groups() == 1 ? ""
      : groups.smallest() == groups.largest()
          ? fmt::format(" in groups of {}", groups.largest())
          : fmt::format(" in {} groups of {} to {}", groups.groups(), groups.smallest(), groups.largest());
  return fmt::format("{}{}, {}{}", counted(static_cast<uint64_t>(groups.ranks()), "rank"), in_groups, transports,
                     sharing_cores ? ", sharing cores" : "");
}

std::optional<double> Profile::seconds(const std::string& situation, Collective collective,
                                       const std::string& algorithm, uint64_t bytes) const {
  const auto known = measured.find(situation);
  if (known == measured.end()) return {};
  const auto of_collective = known->second.find(collective);
  if (of_collective == known->second.end()) return {};
  const auto mine = of_collective->second.find(algorithm);
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
  json page = {{"format", kFormat}, {"version", kVersion}, {"links", json::object()}, {"measured", json::array()}};
  for (const auto& [kind, link] : links) page["links"][kind] = {{"alpha", link.alpha}, {"beta", link.beta}};
  if (gamma) page["gamma"] = *gamma;
  for (const auto& [situation, collectives] : measured) {
    for (const auto& [collective, algorithms] : collectives) {
      for (const auto& [algorithm, times] : algorithms) {
        json row = {{"situation", situation}, {"collective", name_of(collective)}, {"algorithm", algorithm}};
        for (const auto& [bytes, seconds] : times) row["times"].push_back({bytes, seconds});
        if (!times.empty()) page["measured"].push_back(std::move(row));
      }
    }
  }
  return page.dump() + "\n";
}

uint64_t Profile::hash() const { return Hash().add(text()).value(); }

Profile parse_profile(const std::string& text, const std::string& name) {
  try {
    return read(parse_shallow_json(text));
  } catch (const json::exception& error) {
    throw_error(Code::InvalidArgument, "{}: it is no profile of `tutti tune` ({})", name, error.what());
  } catch (const Error& error) {
    throw_error(Code::InvalidArgument, "{}: {}", name, error.what());
  }
}

}  // namespace tutti::select
