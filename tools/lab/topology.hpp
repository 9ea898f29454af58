// What `tutti lab` takes from a topology: GPUs, hosts and links.
#pragma once

#include <string>

#include "tools/lab/options.hpp"
#include "train/planner/scenario.hpp"

namespace tutti::tools {

/// The GPUs of --topo, else of data sheets: one of named_clusters(). Where a topology leaves it open which they are,
/// the standard error says what was taken.
std::string gpu_of(const LabOptions& options);

/// Hosts and links as the selector sees them: α and β of its model, in place of the data sheet's. With --gpus and one
/// host in the file there are as many such hosts as these GPUs need.
void take_topology(const LabOptions& options, train::planner::Cluster& cluster);

}  // namespace tutti::tools
