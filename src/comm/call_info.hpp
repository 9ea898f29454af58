// How a call was executed, in the words of its row: algorithm, method, window and width; and what followed from it on
// this rank, the transport and the delivery of its messages.
#pragma once

#include <functional>
#include <string>

#include "comm/planner.hpp"

namespace tutti::comm {

/// As this rank executed it.
struct CallInfo {
  std::string algorithm;  ///< "ring"; "direct" if every block goes straight to its receiver; "none" for a single rank
  std::string method;     ///< "lanes", "slots", "nvls", …
  uint64_t window = 0;    ///< bytes of a block that a round moves
  uint64_t width = 1;
  std::string transport;  ///< of the links that this rank used: "shm", "shm+tcp"; "none"
  std::string delivery;   ///< of this rank's messages: "inline", "staged", "mapped", "cma", …; joined by '+'
  std::string why;        ///< of each delivery, joined by "; "
  double model = 0;       ///< seconds that the cost model predicts; 0: it has none of this call
};
/// `transport_to`: the name of the transport of the call's links to and from a peer.
CallInfo call_info(const Prepared& prepared, const std::function<std::string(Rank)>& transport_to);

}  // namespace tutti::comm
