#include "comm/rank_report.hpp"

#include <map>

#include "base/printable.hpp"
#include "base/shallow_json.hpp"

namespace tutti::comm {
namespace {

using nlohmann::json;
using Slowest = FabricReport::Slowest;
using Links = std::map<std::string, Slowest>;

json links_json(const Links& links) {
  json all = json::object();
  for (const auto& [relation, slowest] : links) all[relation] = {slowest.alpha, slowest.beta, slowest.in_place};
  return all;
}

Links links_from(const json& page) {
  Links links;
  for (const auto& [relation, slowest] : page.items()) {
    links[relation] = {slowest.at(0).get<double>(), slowest.at(1).get<double>(), slowest.at(2).get<bool>()};
  }
  return links;
}

}  // namespace

std::string to_text(const RankReport& report) {
  const FabricReport& fabric = report.fabric;
  const json all = {
      {"plans", json::parse(report.plans)},
      {"staging", fabric.staging},
      {"longest", fabric.longest},
      {"links", links_json(fabric.links)},
      {"kind", report.kind},
      {"unreachable", fabric.unreachable},
      {"word", {fabric.word.at, fabric.word.value}},
      {"cores", fabric.cores},
      {"arena", fabric.arena},
      {"routes", fabric.routes},
      {"name", report.host},
      {"boot", report.boot},
      {"crowding", report.crowding},
      {"device",
       {report.device.why_not, report.device.id, report.device.blocks, report.device.joined, report.device.why_no_nvls,
        report.device.address, report.device.kind, report.device.model, report.device.driver}}};
  return all.dump();
}

/// Throws Error(ProtocolError) unless it is a sensible number of ranks per core.
double crowding_from(const json& value) {
  const double crowding = value.get<double>();
  if (crowding >= 1 && crowding <= 1e6) return crowding;
  throw_error(Code::ProtocolError, "another rank sent {} in place of the ranks on a core", value.dump());
}

RankReport parse_report(const std::string& text, Rank peer) {
  return read_of(peer, [&] {
    const json report = parse_shallow_json(text);
    const json &word = report.at("word"), &device = report.at("device");
    return RankReport{
        .fabric = {.staging = whole_number(report.at("staging")),
                   .longest = whole_number(report.at("longest")),
                   .links = links_from(report.at("links")),
                   .unreachable = printable(report.at("unreachable").get<std::string>()),
                   .word = {whole_number(word.at(0)), whole_number(word.at(1))},
                   .cores = report.at("cores").get<std::string>(),
                   .arena = whole_number(report.at("arena")),
                   .routes = report.at("routes").get<std::map<std::string, std::string>>()},
        .plans = report.at("plans").dump(),
        .host = printable(report.at("name").get<std::string>()),
        .boot = report.at("boot").get<std::string>(),
        .device = {device.at(0).get<std::string>(), device.at(1).get<std::string>(), whole_number(device.at(2)),
                   device.at(3).get<std::vector<std::string>>(), device.at(4).get<std::string>(),
                   device.at(5).get<std::string>(), whole_number(device.at(6)),
                   printable(device.at(7).get<std::string>()), printable(device.at(8).get<std::string>())},
        .crowding = crowding_from(report.at("crowding")),
        .kind = whole_number(report.at("kind"))};
  });
}

}  // namespace tutti::comm
