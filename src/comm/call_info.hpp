// How a call was done, in words: algorithm, transport, and how its messages were delivered.
#pragma once

#include <string>

#include "comm/fabric.hpp"
#include "comm/planner.hpp"
#include "exec/links.hpp"

namespace tutti::comm {

/// As one rank saw it.
struct CallInfo {
  std::string algorithm;  ///< "ring"; "direct" where every block goes straight to who gets it; "none" for a rank alone
  std::string transport;  ///< of this rank's links in it: "shm", "shm+tcp"; "none"
  std::string
      delivery;     ///< of the messages that this rank sends: "inline", "staged", "mapped", "cma", … with '+' between
  std::string why;  ///< the deliveries' reasons, "; " between
};
CallInfo call_info(const Prepared& prepared, exec::Links& links, const Fabric& fabric);

}  // namespace tutti::comm
