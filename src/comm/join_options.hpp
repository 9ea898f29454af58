// The options of a communicator, beside its id and its ranks.
#pragma once

#include <string>

#include "base/env.hpp"
#include "comm/groups.hpp"
#include "control/endpoint.hpp"

namespace tutti::comm {

/// Seconds.
struct Timeouts {
  double call = 0;  ///< that a call may wait without progress; 0: TUTTI_TIMEOUT
  double init = 0;  ///< that making a communicator or a link may take; 0: TUTTI_INIT_TIMEOUT

  double of_calls() const { return call > 0 ? call : env().timeout; }
  double of_init() const { return init > 0 ? init : env().init_timeout; }
};

struct JoinOptions {
  Groups groups;      ///< of near ranks, where the ranks know them already; null: by TUTTI_GROUPS, or else by host
  std::string title;  ///< names the communicator in messages, alike on all ranks; empty: one is made of the id
  Timeouts timeouts;
  int device = -1;  ///< on which this rank's calls on device memory run; −1: none
  control::JoinTerms terms;
};

}  // namespace tutti::comm
