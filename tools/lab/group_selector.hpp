// The selector's times of the calls that a training step makes in its groups of GPUs, on hosts as in a topology.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "select/links_alone.hpp"
#include "select/machine.hpp"
#include "topo/graph.hpp"
#include "train/planner/call_times.hpp"

namespace tutti::tools {

/// A group of n GPUs, k of each host, is a communicator of n ranks on n/k hosts, as `tutti explain -n` has it. Groups
/// of its kind that share its hosts call at the same time, so a rank's network is what is left when all GPUs of a host
/// send.
class GroupSelector {
 public:
  /// `topology`: of so many such hosts.
  using Hosts = std::function<topo::Graph(int64_t hosts)>;
  explicit GroupSelector(Hosts topology) : topology_(std::move(topology)) {}

  /// Seconds of a call whose whole buffer has `bytes` bytes, and by what.
  struct Selected {
    double seconds = 0;
    std::string algorithm, method;
    std::optional<double> links_alone;
  };
  Selected selected(train::planner::Call call, train::planner::Group group, double bytes);

  /// For CallTimes.
  train::planner::CallTimes::Curve curve(train::planner::Call call, train::planner::Group group);

 private:
  const select::CostInputs& inputs(train::planner::Group group);
  const select::CostInputs& all_of(int64_t hosts);
  select::Choices& choices(Collective collective, train::planner::Group group);
  double message(train::planner::Group group, double bytes);

  Hosts topology_;
  std::map<int64_t, select::CostInputs> all_;  // by hosts: a rank on each GPU
  std::map<train::planner::Group, select::CostInputs> inputs_;
  std::map<std::pair<Collective, train::planner::Group>, std::unique_ptr<select::Choices>> choices_;
};

/// The calls of a layout, a line each; with the time that links alone would take.
std::string calls_text(GroupSelector& selector, const std::vector<double>& values);
nlohmann::ordered_json calls_json(GroupSelector& selector, const std::vector<double>& values);

}  // namespace tutti::tools
