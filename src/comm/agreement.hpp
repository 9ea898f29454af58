// What the ranks of a new communicator tell each other, and what they agree on. They exchange JSON. Other ranks' texts
// are not trusted: an invalid one is an Error(ProtocolError).
#pragma once

#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "comm/delivery_rules.hpp"
#include "comm/fabric.hpp"
#include "comm/groups.hpp"
#include "comm/host_ranks.hpp"
#include "control/endpoint.hpp"
#include "exec/host/wait.hpp"
#include "select/select.hpp"

namespace tutti::comm {

/// The settings that must be equal on all ranks, so that they understand each other and choose alike (of TUTTI_CMA: a
/// reader looks for revoked messages only where it expects zero-copy ones). A rank passes this to Endpoint::join.
std::string configuration();
/// Throws Error(Mismatch), which names both ranks and the setting, unless all ranks have joined with the same.
void compare_configurations(const control::Endpoint& endpoint);

/// What a rank says of its device.
struct DeviceReport {
  std::string why_not;              ///< why the rank serves no calls on device memory; "" if it does
  std::string id;                   ///< of the device, the same for all who use it
  uint64_t blocks = 0;              ///< of a call's kernel that the device runs at the same time
  std::vector<std::string> joined;  ///< ids of the devices to which its stores of a line stay whole
  std::string why_no_switch;        ///< that folds for it and others (exec::DeviceExecutor); "" if there may be one
};

/// What a rank tells the others when its fabric is made.
struct RankReport {
  FabricReport fabric;
  std::string plans = "{}";  ///< JSON: the algorithms that TUTTI_PLAN gives, by collective
  std::string host;          ///< the host's name in messages
  std::string boot;          ///< of its kernel (control/host.hpp); "": unknown
  DeviceReport device;
  double crowding = 1;  ///< ranks per core of its host, as its other communicators know them
};
std::string to_text(const RankReport& report);
/// Reads what rank `peer` sent. Throws Error(ProtocolError).
RankReport parse_report(const std::string& text, Rank peer);

struct Agreement {
  std::vector<RankReport> reports;  ///< by rank
  select::Setting setting;
  select::DecisionTable table;
  AgreedCapabilities capabilities;
  exec::Backoff backoff;      ///< this rank's
  RanksByProcess host_ranks;  ///< of this communicator, on this host
};

/// Exchanges reports and conclusions. Collective. Throws Error: Mismatch if the ranks' plans differ, Unsupported if a
/// rank cannot reach another or a forced algorithm cannot be used, and what Endpoint::exchange throws.
Agreement agree(control::Endpoint& endpoint, Fabric& fabric, const Groups& groups, bool groups_given,
                const DeviceReport& device, Deadline deadline);

}  // namespace tutti::comm
