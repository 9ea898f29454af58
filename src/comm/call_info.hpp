// How a call was executed, as text: algorithm, transport, and delivery of its messages.
#pragma once

#include <string>

#include "comm/fabric.hpp"
#include "comm/planner.hpp"

namespace tutti::comm {

/// As this rank executed it.
struct CallInfo {
  std::string algorithm;  ///< "ring"; "direct" if every block goes straight to its receiver; "none" for a single rank
  std::string transport;  ///< of the links that this rank used: "shm", "shm+tcp"; "none"
  std::string delivery;   ///< of this rank's messages: "inline", "staged", "mapped", "cma", …; joined by '+'
  std::string why;        ///< of each delivery, joined by "; "
};
CallInfo call_info(const Prepared& prepared, const Fabric& fabric);

}  // namespace tutti::comm
