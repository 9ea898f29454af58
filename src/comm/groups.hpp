// The rank groups of a communicator: ranks that are close to each other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::comm {

using Groups = std::shared_ptr<const plan::Grouping>;

/// The groups of ranks with these host identities: one for each host, unless `wanted` (TUTTI_GROUPS) lists other
/// groups. Throws Error(InvalidArgument) if the list is invalid.
Groups groups_of(std::span<const std::string> hosts, const std::string& wanted);

/// The groups of a subset of ranks, numbered in this order: ranks of one group stay in one group.
Groups groups_among(const plan::Grouping& all, std::span<const Rank> some);

}  // namespace tutti::comm
