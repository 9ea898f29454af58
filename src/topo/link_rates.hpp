// What links carry at most, by all that a job knows: what a bound has to rest on.
//
// A topology has the rates that machines of its kind are published to reach. What a job knows of messages stands above
// them (Figure): caches may be faster than published, and a network faster than its ports are named. A link on the way
// of such messages carries them, so it carries at least as much; of a link that was measured itself, only what was
// measured of two certain hosts says more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace tutti::topo {

inline constexpr const char* kPublished = "published";

struct LinkRate {
  double gbps = 0;     ///< in each direction
  std::string origin;  ///< kPublished, "assumed", "measured by `tutti tune`", "the quick calibration"
};

/// By link, where ranks are on these nodes.
std::vector<LinkRate> rates_at_most(const Graph& graph, std::span<const NodeId> ranks);

/// Of cores whose long messages reach `gbps`. That is a rate of two copies, into staging memory and out of it. A
/// message that is read `in_place` is copied once, and both of its ends may copy a half.
double most_of_copies(double gbps, bool in_place);

/// Of what joins two hosts.
double rate_at_most(const Figure& figure);

}  // namespace tutti::topo
