#include "tools/info_machine.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNotTold = "not reported by this machine";

/// "1.9G"; exact if few digits suffice.
std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "K", "M", "G", "T"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.4g}{}", value, kUnits[unit]);
}

/// "32M"; what is unknown, or has no limit, in words.
std::string size_or(uint64_t bytes, uint64_t none, const char* words) {
  return bytes == none ? words : size_text(bytes);
}

/// "2 of 48K, one for each core", "1 of 32M, shared by 8 cores".
std::string caches_text(const std::vector<Cache>& caches, const std::vector<Cores>& cores) {
  std::map<std::pair<uint64_t, size_t>, uint64_t> alike;  // by size and number of cores: how many there are
  for (const Cache& cache : caches) {
    size_t sharers = 0;
    for (const Cores& core : cores)
      sharers += std::binary_search(cache.processors.begin(), cache.processors.end(), core.front()) ? 1 : 0;
    ++alike[{cache.bytes, sharers}];
  }
  std::string text;
  for (const auto& [kind, number] : alike) {
    const auto& [bytes, sharers] = kind;
    const std::string shared = fmt::format("{}shared by {} cores", number > 1 ? "each " : "", sharers);
    text += fmt::format("{}{} of {}, {}", text.empty() ? "" : "; ", number, size_or(bytes, 0, "unknown size"),
                        sharers > 1 ? shared : "one for each core");
  }
  return text.empty() ? kNotTold : text;
}

/// "8", "8, of 2 hardware threads each", "8, of up to 2 hardware threads".
std::string cores_text(const std::vector<Cores>& cores) {
  size_t most = 0, least = std::numeric_limits<size_t>::max();
  for (const Cores& core : cores) most = std::max(most, core.size()), least = std::min(least, core.size());
  if (most == 0) return kNotTold;
  if (most == 1) return fmt::format("{}", cores.size());
  return least == most ? fmt::format("{}, of {} hardware threads each", cores.size(), most)
                       : fmt::format("{}, of up to {} hardware threads", cores.size(), most);
}

std::string nodes_text(const std::vector<NumaNode>& nodes) {
  std::string text;
  for (const NumaNode& node : nodes) {
    text += fmt::format("{}{} (processors {})", text.empty() ? "" : ", ", size_or(node.bytes, 0, "unknown size"),
                        node.processors.empty() ? "none" : to_text(node.processors));
  }
  return text.empty() ? kNotTold : text;
}

std::string count_or(size_t number) { return number == 0 ? kNotTold : fmt::format("{}", number); }

void add_caches(ordered_json& facts, const Machine& machine, const Cores& processors) {
  const std::vector<Cores> cores = cores_within(machine, processors);
  for (const auto& [name, level] : {std::pair("l1d", 1), {"l2", 2}, {"l3", 3}}) {
    facts[name] = caches_text(caches_within(machine, level, processors), cores);
  }
}

const char* scope_text(ConstantScope scope) {
  switch (scope) {
    case ConstantScope::Compiled:
      return "compiled in";
    case ConstantScope::PerRank:
      return "of each rank";
    case ConstantScope::PerJob:
      return "equal on all ranks";
  }
  return "";
}

/// What the kernel has; the nodes' own figures may lack memory that was added while it ran.
std::string memory_text(const Machine& machine) {
  const uint64_t kernels = machine.is_this_one ? static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                                     static_cast<uint64_t>(sysconf(_SC_PAGESIZE))
                                               : 0;
  if (kernels == 0) return size_or(machine.memory, 0, kNotTold);
  const bool differs = machine.memory < kernels / 20 * 19;
  return size_text(kernels) +
         (differs && machine.memory > 0 ? ", of which NUMA nodes report " + size_text(machine.memory) : "");
}

}  // namespace

ordered_json machine_facts(const Machine& machine) {
  ordered_json facts;
  utsname system{};
  uname(&system);
  facts["host"] = system.nodename;
  facts["kernel"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  if (!machine.is_this_one) facts["described_by"] = "HWLOC_XMLFILE or HWLOC_SYNTHETIC: perhaps another machine";
  facts["processor"] = machine.model.empty() ? kNotTold : machine.model;
  facts["sockets"] = count_or(machine.sockets.size());
  facts["cores"] = cores_text(machine.cores);
  facts["processors"] = count_or(machine.processors.size());
  add_caches(facts, machine, machine.processors);
  facts["numa_nodes"] = nodes_text(machine.nodes);
  facts["memory"] = memory_text(machine);
  return facts;
}

ordered_json share_facts(const Machine& machine) {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  ordered_json facts;
  const Cores mine = allowed_cores();
  facts["affinity"] = to_text(mine);
  facts["usable_processors"] = mine.size();
  if (machine.is_this_one) {
    facts["usable_cores"] = cores_text(cores_within(machine, mine));
    add_caches(facts, machine, mine);
  } else {
    facts["usable_cores"] = "not known: hwloc describes another machine";
  }
  const double quota = core_quota();
  facts["cpu_quota"] = std::isinf(quota) ? "none" : fmt::format("{:.4g} cores", quota);
  facts["memory_limit"] = size_or(memory_limit(), kNone, "none");
  facts["memory_left"] = size_or(available_memory(), kNone, kNotTold);
  facts["tasks_left"] = tasks_left() == kNone ? ordered_json("no limit") : ordered_json(tasks_left());
  return facts;
}

ordered_json constant_facts() {
  ordered_json facts;
  for (const ConstantInfo& row : constant_table()) {
    facts[row.name] = {{"value", row.value},
                       {"unit", row.unit},
                       {"scope", scope_text(row.scope)},
                       {"meaning", row.meaning},
                       {"measured", row.measured}};
  }
  return facts;
}

}  // namespace tutti::tools
