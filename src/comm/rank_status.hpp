// What a communicator's rank says of itself to people who ask (`tutti status`).
#pragma once

#include <memory>
#include <string>

#include "comm/call_board.hpp"
#include "control/endpoint.hpp"

namespace tutti::comm {

/// While it lives, the process's status has this rank.
class ShownRank {
 public:
  /// `endpoint` must outlive it.
  ShownRank(const control::Endpoint& endpoint, std::string title, std::shared_ptr<const CallBoard> board);
  ~ShownRank();
  ShownRank(const ShownRank&) = delete;
  ShownRank& operator=(const ShownRank&) = delete;
};

}  // namespace tutti::comm
