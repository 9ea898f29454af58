// Which rank keeps the copy of a rank's state: one on another host, so that the loss of a host loses no state.
#pragma once

#include <string>
#include <vector>

namespace tutti::train {

/// The keeper of each rank, given the ranks' hosts: each rank keeps one copy, and of two ranks or more none its own.
/// All keepers are on other hosts, unless a host has more than half of the ranks: of such a host's m of n ranks, 2m − n
/// have keepers on it.
std::vector<int> keepers(const std::vector<std::string>& hosts);

}  // namespace tutti::train
