// How a call was executed, as text: algorithm, transport, and delivery of its messages.
#pragma once

#include <functional>
#include <string>

#include "comm/planner.hpp"

namespace tutti::comm {

/// The delivery of messages of a call that a device's copy engines run.
inline constexpr const char* kCopied = "copied";
/// The same of one that the switch between devices folds.
inline constexpr const char* kMultimem = "multimem";

/// As this rank executed it.
struct CallInfo {
  std::string algorithm;  ///< "ring"; "direct" if every block goes straight to its receiver; "none" for a single rank
  std::string transport;  ///< of the links that this rank used: "shm", "shm+tcp"; "none"
  std::string delivery;   ///< of this rank's messages: "inline", "staged", "mapped", "cma", …; joined by '+'
  std::string why;        ///< of each delivery, joined by "; "
};
/// `transport_to`: the name of the transport of the call's links to and from a peer.
CallInfo call_info(const Prepared& prepared, const std::function<std::string(Rank)>& transport_to);

}  // namespace tutti::comm
