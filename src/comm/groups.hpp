// Which ranks of a communicator are near each other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::comm {

using Groups = std::shared_ptr<const plan::Grouping>;

/// Groups of the ranks with these hosts' identities: those of one host or, where `wanted` (TUTTI_GROUPS) says
/// something, as it says. Throws Error(InvalidArgument) where it makes no sense.
Groups groups_of(std::span<const std::string> hosts, const std::string& wanted);

/// What a plan for this root is generated for: its groups are those of the ranks as counted from there.
plan::Shape shape_from(Rank root, Collective collective, const Groups& groups);

/// The groups of some ranks of a communicator, in this order, among themselves: each stays with those it was with.
Groups groups_among(const plan::Grouping& all, std::span<const Rank> some);

}  // namespace tutti::comm
