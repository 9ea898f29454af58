// What TUTTI_LOG asks to be told of a communicator and its calls. Nothing of it is on the path of a call that was made
// before.
//
//   info    one block when a communicator is made, by its rank 0
//   debug   each rank's first choice for a (collective, size): algorithm, delivery, and why
//   trace   every call, when it is over (submit.cpp)
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comm/call_info.hpp"
#include "control/endpoint.hpp"
#include "exec/host/wait.hpp"
#include "select/select.hpp"

namespace tutti::comm {

/// The block of a new communicator. `reports`: by rank, what each told of its fabric.
std::string summary(const control::Endpoint& endpoint, const std::vector<std::string>& reports, const Fabric& fabric,
                    const plan::Grouping& groups, const AgreedCapabilities& agreed, const select::DecisionTable& table);

/// "0-3, 7".
std::string ranges(const std::vector<Rank>& ranks);

class DecisionLog {
 public:
  DecisionLog(Rank rank, select::Setting setting) : rank_(rank), setting_(std::move(setting)) {}

  /// A call of this kind is made for the first time. Logs it where its size's class has not been told of yet.
  void first(const CallSpec& spec, const CallInfo& info);

 private:
  std::string why(const CallSpec& spec, const std::string& algorithm) const;

  Rank rank_;
  select::Setting setting_;
  std::set<std::tuple<Collective, int, std::string>> told_;  // collective, class of size, algorithm and delivery
};

}  // namespace tutti::comm
