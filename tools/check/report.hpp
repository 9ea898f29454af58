// What a check of hosts found, as people and programs read it.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "tools/check/host_facts.hpp"
#include "tools/check/pairs.hpp"
#include "tools/check/reach.hpp"

namespace tutti::tools {

/// One host, and what is known of it.
struct CheckedHost {
  std::string name;                ///< as the user wrote it; of this host its own
  int ranks = 0;                   ///< that would run there
  std::optional<HostFacts> facts;  ///< empty: it could not be asked
};

struct CheckReport {
  std::vector<CheckedHost> hosts;
  std::vector<std::vector<Reached>> reached;  ///< by host; empty: not tried
  std::vector<PairFigures> pairs;             ///< between hosts
  std::vector<std::string> problems;          ///< what keeps them from running a job together
  std::vector<std::string> remarks;           ///< what is odd
};

void print_hosts(const CheckReport& report);
void print_pairs(const CheckReport& report);
void print_verdict(const CheckReport& report);
nlohmann::ordered_json to_json(const CheckReport& report);

}  // namespace tutti::tools
