#include "tools/run/binding.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "topo/machine.hpp"

namespace tutti::tools {

std::vector<Cores> usable_cores() {
  Machine machine;
  try {
    machine = read_machine();
  } catch (const Error&) {  // then its cores are unknown
  }
  if (!machine.is_this_one) machine = {};
  return cores_within(machine, allowed_cores());  // of an unknown machine every processor counts as a core
}

std::string bind_ranks(std::vector<Placement>& ranks, Binding how, const std::vector<Cores>& cores) {
  const auto here = static_cast<size_t>(
      std::count_if(ranks.begin(), ranks.end(), [](const Placement& rank) { return rank.host.empty(); }));
  if (how == Binding::None) return "ranks are not bound to cores (--bind none)";
  if (how == Binding::Auto && here > cores.size()) {
    return fmt::format("ranks are not bound to cores: {}, {}", counted(here, "rank"), counted(cores.size(), "core"));
  }
  if (how == Binding::Auto && here <= 1) return "ranks are not bound to cores: there is but one rank here";
  for (Placement& rank : ranks) {
    if (rank.host.empty()) rank.cpus = cores[static_cast<size_t>(rank.local_rank) % cores.size()];
  }
  return fmt::format("{} bound to {}, rank by rank", here == 1 ? "1 rank is" : fmt::format("{} ranks are", here),
                     counted(std::min(here, cores.size()), "core"));
}

}  // namespace tutti::tools
