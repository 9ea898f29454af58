#include "tools/topo/job.hpp"

#include <map>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/private_file.hpp"
#include "tools/gather.hpp"
#include "tools/run/hosts.hpp"
#include "topo/cluster.hpp"
#include "topo/detect.hpp"
#include "topo/graph_json.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kMaxId = 256;

/// Equal for ranks of one host: the kernel's boot, and the name, which containers have each their own of.
std::string host_key() {
  return read_file("/proc/sys/kernel/random/boot_id", kMaxId, false).value_or("") + host_name();
}

}  // namespace

bool is_in_job() { return env().size.value_or(1) > 1; }

JobTopology topology_of_job() {
  Communicator comm = Communicator::from_environment();
  const std::vector<std::string> keys = gather(comm, host_key());
  std::map<std::string, uint32_t> numbers;
  std::vector<topo::RankPlace> places;
  std::vector<size_t> first;  // rank of each host
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const auto [host, is_new] = numbers.emplace(keys[rank], static_cast<uint32_t>(first.size()));
    if (is_new) first.push_back(rank);
    places.push_back({host->second, {}});
  }
  const auto me = static_cast<size_t>(comm.rank());
  const bool speaks = first[places[me].part] == me;
  topo::Graph mine = speaks ? topo::local_topology() : topo::Graph{};
  mine.ranks.clear();
  const std::vector<std::string> graphs = gather(comm, speaks ? to_json(mine) : "");
  const std::vector<std::string> cores = gather(comm, to_text(allowed_cores()));
  std::vector<topo::Graph> parts;
  for (const size_t rank : first) parts.push_back(topo::graph_of_json(graphs[rank], "rank " + std::to_string(rank)));
  for (size_t rank = 0; rank < places.size(); ++rank) places[rank].processors = parse_cores(cores[rank]);
  return {topo::merge_ranks(parts, places), comm.rank()};
}

}  // namespace tutti::tools
