// Options of commands that are about a machine which need not be there.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/rank.hpp"
#include "tools/number_range.hpp"
#include "topo/cluster.hpp"
#include "topo/detect.hpp"
#include "topo/import.hpp"
#include "topo/nvlink.hpp"
#include "topo/without.hpp"
#include "tutti/types.hpp"

namespace tutti::tools {

inline constexpr Rank kMaxModelled = 4096;  ///< ranks, and hosts, of a model

/// COLLECTIVE, --bytes and -n: a call.
inline void add_call(CLI::App& command, std::string& collective, std::string& bytes, Rank& ranks) {
  command.add_option("COLLECTIVE", collective, "all_reduce, ncclAllGather, MPI_Bcast …")->required();
  command.add_option("--bytes", bytes, "the call's size, as `tutti perf` has it: of the whole buffer; default 1M");
  command
      .add_option("-n,--np", ranks, "ranks, of all hosts together; default one a GPU (core) of --topo, else 2 a host")
      ->check(CLI::Range(1, kMaxModelled));
}

/// `gbps`: of each GPU, in one direction; stays 0 without the option.
inline void add_nvlink(CLI::App& command, double& gbps) {
  command
      .add_option("--nvlink", gbps,
                  "GPUs of a host are joined by NVLink, though the file has none: GB/s of each, one way")
      ->check(within(1.0, 1e5))
      ->type_name("GB/S");
}

/// Parts that the machine does without.
inline void add_without(CLI::App& command, std::vector<std::string>& parts) {
  command
      .add_option("--without", parts, "as if it had failed: gpu:3, nic:mlx5_0, link:0-1, of host 2 gpu:2/3; repeatable")
      ->type_name("PART")
      ->allow_extra_args(false);
}

/// Throws Error(InvalidArgument) unless the collective has such a root.
inline void check_root(Rank root, Collective collective, Rank ranks) {
  if (root > 0 && !has_root(collective)) {
    throw_error(Code::InvalidArgument, "{} has no root: leave out --root", name_of(collective));
  }
  if (root >= ranks) throw_error(Code::InvalidArgument, "--root {}: ranks are 0 to {}", root, ranks - 1);
}

/// Refuses what changes a topology's file where none is given. Throws Error(InvalidArgument).
inline void check_has_topology(double nvlink, const std::vector<std::string>& without) {
  if (nvlink > 0) throw_error(Code::InvalidArgument, "--nvlink: give the topology too, by --topo");
  if (!without.empty()) throw_error(Code::InvalidArgument, "--without: give the topology too, by --topo");
}

/// The topology of `hosts` hosts like that of the file, or like this one ("" for a file), whose GPUs are joined by
/// NVLink of `nvlink` GB/s, unless that is 0; without some parts.
inline topo::Graph topology_from(const std::string& file, double nvlink, int64_t hosts,
                                 const std::vector<std::string>& without = {}) {
  topo::Graph graph = file.empty() ? topo::local_topology() : topo::import_file(file);
  if (nvlink > 0) topo::add_nvlink(graph, nvlink);
  if (hosts > 1) graph = topo::cluster(graph, static_cast<uint32_t>(hosts));
  return topo::without_parts(std::move(graph), without);
}

}  // namespace tutti::tools
