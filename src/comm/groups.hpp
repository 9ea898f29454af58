// Which ranks of a communicator are near each other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/grouping.hpp"

namespace tutti::comm {

using Groups = std::shared_ptr<const plan::Grouping>;

/// Groups of the ranks with these hosts' identities: those of one host or, where `wanted` (TUTTI_GROUPS) says
/// something, as it says. Throws Error(InvalidArgument) where it makes no sense.
Groups groups_of(std::span<const std::string> hosts, const std::string& wanted);

/// The groups of some ranks of a communicator, in this order, among themselves: each stays with those it was with.
Groups groups_among(const plan::Grouping& all, std::span<const Rank> some);

}  // namespace tutti::comm
