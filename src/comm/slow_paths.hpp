// Paths that are slower than this machine's best, and what would help: said once, when a communicator is made.
#pragma once

#include <string>
#include <vector>

#include "topo/ports.hpp"

namespace tutti::comm {

/// What rank 0 knows of all ranks when they have agreed.
struct PathFacts {
  struct Member {
    std::string host;  ///< the identity of its host, which containers have each their own of
    std::string name;  ///< of its host, in messages
    std::string boot;  ///< of its kernel: equal for containers of one machine; "": unknown
  };
  std::vector<Member> ranks;            ///< [rank]
  double ranks_per_core = 1;            ///< where most share one
  bool processes_meet = false;          ///< two processes are on this host
  bool cma_wanted = true;               ///< TUTTI_CMA
  bool cma_works = true;                ///< all ranks read each other's memory
  bool cma_on_itself = true;            ///< this process may read its own memory by CMA
  int ptrace_scope = 0;                 ///< of Yama; 0 where there is none
  std::string between;                  ///< the transports between hosts: "tcp"; "": one host
  std::string why_no_better;            ///< the reason, transport by transport
  std::vector<topo::PortReport> ports;  ///< of this host
};

/// A sentence each, with cause and remedy; empty if nothing is slow.
std::vector<std::string> slow_paths(const PathFacts& facts);
/// The same of ranks that share cores, which is often meant so; "" if none do.
std::string shared_cores(const PathFacts& facts);

}  // namespace tutti::comm
