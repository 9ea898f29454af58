// Cuts of networks: what leaves a side, minimum cuts, and splits into parts.
#pragma once

#include <utility>
#include <vector>

#include "synth/bound.hpp"

namespace tutti::synth {

/// Throws Error(InvalidArgument), which names the ranks of the side and the others.
[[noreturn]] void no_path(const Network& network, const Side& side);

/// The capacity of all arcs that leave the side.
Capacity way_out(const Network& network, const Side& side);

/// The minimum cut between two sets of vertices, and the side of the first. The sets may be shorter than the network:
/// what is beyond their ends is in neither. Throws Error(InvalidArgument) if there is no path.
std::pair<Capacity, Side> minimum_cut(const Network& network, const std::vector<bool>& from,
                                      const std::vector<bool>& to);

inline constexpr uint32_t kNoPart = 0xffffffff;

/// `labels`: the number of its part, from 0 on, by rank, or by vertex; kNoPart: it only forwards. The ways out of all
/// parts together, each by its minimum cut from the others, and what an all-reduce sends by them at least, in buffers:
/// 2 (parts − 1).
Cut cut_of_parts(const Network& network, const std::vector<uint32_t>& labels);

void keep_tighter(Cut& best, Cut cut);

}  // namespace tutti::synth
