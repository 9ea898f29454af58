// What choices for calls on memory of GPUs are made from, beside the topology: the same in a communicator and in
// `tutti explain`.
#pragma once

#include <vector>

#include "select/profile.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// What messages between GPUs of a host take: as measured, for paths of the kinds that a profile has; for all others
/// the library's constant beside the rates of the links. Null: there is no profile.
std::vector<topo::Figure> figures_of_gpus(const Profile* profile);

/// How many GPUs ranks stand on.
uint64_t count_gpus(const topo::Graph& job);

/// This machine's profile, if it has times of these GPUs; equal on all ranks that pass the same GPUs. `gpus.driver` may
/// be unknown (""). Throws Error(InvalidArgument) if TUTTI_PROFILE names one of other GPUs; one of the cache folder is
/// only not used.
std::shared_ptr<const Profile> profile_for(const MeasuredGpus& gpus);

}  // namespace tutti::select
