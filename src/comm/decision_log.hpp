// What TUTTI_LOG logs of a communicator and its calls. A repeated call does not come here.
//
//   info    one block when a communicator is created, by its rank 0
//   info    with TUTTI_EXPLAIN, rank 0's table of candidates at the first call of a (collective, size class)
//   debug   each rank's first choice for a (collective, size): algorithm, delivery, and why
//   trace   every call, when it ends (submit.cpp)
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/call_info.hpp"
#include "control/endpoint.hpp"
#include "select/select.hpp"

namespace tutti::comm {

/// The block for a new communicator. `groups`: what rank 0 began with; it may have grouped ranks by their caches.
std::string summary(const control::Endpoint& endpoint, const Fabric& fabric, const Groups& groups,
                    const Agreement& agreed);

/// "0-3, 7".
std::string ranges(const std::vector<Rank>& ranks);

class DecisionLog {
 public:
  /// `machine`: what the inputs were made from, as text; only rank 0 knows. `graph`: the same as a topology, for
  /// bounds; without ranks, there are none.
  DecisionLog(Rank rank, select::CostInputs inputs, std::string machine, topo::Graph graph)
      : rank_(rank), inputs_(std::move(inputs)), machine_(std::move(machine)), graph_(std::move(graph)) {}

  /// A first call of this kind: logs it if no call of its size class has been logged.
  void log_first(const CallSpec& spec, const CallInfo& info);

 private:
  void explain(const CallSpec& spec, uint64_t bytes);
  void take_bound(Collective collective);
  std::string why(const CallSpec& spec, const CallInfo& info) const;

  Rank rank_;
  select::CostInputs inputs_;
  std::string machine_;
  topo::Graph graph_;
  std::set<Collective> bounded_;  // their bounds are of graph_
  std::set<std::pair<Collective, int>> explained_;
  std::set<std::tuple<Collective, int, std::string>> logged_;  // logged: collective, size class, algorithm and delivery
};

}  // namespace tutti::comm
