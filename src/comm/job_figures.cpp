#include "comm/job_figures.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "select/job.hpp"
#include "topo/link_rates.hpp"

namespace tutti::comm {
namespace {

using Between = topo::Figure::Between;
using Slowest = FabricReport::Slowest;

double gbps_of(const Slowest& links) { return 1e-9 / std::max(links.beta, 1e-15); }

/// The most that messages of this rank reach: inside its host by its calibration, if it has one.
double most_of(const FabricReport& fabric, const Slowest& links, Between between) {
  const double gbps = gbps_of(links);
  if (between == Between::Hosts) return gbps;
  return fabric.most > 0 ? std::max(fabric.most, gbps) : topo::most_of_copies(gbps, links.in_place);
}

}  // namespace

std::vector<topo::Figure> figures_of(const std::vector<RankReport>& reports) {
  std::vector<topo::Figure> figures;
  for (const auto& [relation, between] :
       {std::pair(kBetweenThreads, Between::Threads), std::pair(kBetweenProcesses, Between::Processes),
        std::pair(kBetweenHosts, Between::Hosts)}) {
    Slowest slowest;
    double most = 0;
    const RankReport* fastest = nullptr;
    std::set<std::string> transports;
    for (const RankReport& report : reports) {
      const auto links = report.fabric.links.find(relation);
      const auto route = report.fabric.routes.find(relation);
      if (links == report.fabric.links.end() || route == report.fabric.routes.end()) continue;
      slowest.alpha = std::max(slowest.alpha, links->second.alpha);
      slowest.beta = std::max(slowest.beta, links->second.beta);
      slowest.in_place = slowest.in_place && links->second.in_place;
      if (const double reached = most_of(report.fabric, links->second, between); fastest == nullptr || reached > most) {
        most = reached;
        fastest = &report;
      }
      transports.insert(route->second);
    }
    if (transports.empty()) continue;
    const std::string transport = fmt::format("{}", fmt::join(transports, "+"));
    const std::string kind = between == Between::Threads     ? "threads"
                             : between == Between::Processes ? "processes"
                                                             : transport;
    const bool of_another = fastest->fabric.most > 0 && fastest->host != reports.front().host;
    figures.push_back({.between = between,
                       .us = slowest.alpha * 1e6,
                       .gbps = gbps_of(slowest),
                       .most = between == Between::Hosts && most <= gbps_of(slowest) ? 0 : most,
                       .in_place = slowest.in_place,
                       .transport = transport,
                       .origin = between != Between::Hosts && of_another
                                     ? "the quick calibration of another host"
                                     : select::origin_of_figures(transport, kind, between == Between::Hosts)});
  }
  return figures;
}

}  // namespace tutti::comm
