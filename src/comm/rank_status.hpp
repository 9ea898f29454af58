// What a communicator's rank says of itself to people who ask (`tutti status`, `tutti trace`).
#pragma once

#include <memory>
#include <string>

#include "comm/call_log.hpp"
#include "comm/fabric.hpp"
#include "comm/rank_report.hpp"
#include "control/endpoint.hpp"

namespace tutti::comm {

/// "shm, tcp": those that serve the peers of a rank with this report.
std::string transports_of(const RankReport& report);

/// While it lives, the process's status has this rank.
class ShownRank {
 public:
  /// `endpoint` and `fabric` must outlive it. `transports`: of its links; "", and no fabric: they have none yet.
  ShownRank(const control::Endpoint& endpoint, const std::string& title, const std::shared_ptr<const CallLog>& log,
            const std::string& transports = "", const Fabric* fabric = nullptr);
  ~ShownRank();
  ShownRank(const ShownRank&) = delete;
  ShownRank& operator=(const ShownRank&) = delete;
};

}  // namespace tutti::comm
