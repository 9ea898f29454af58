#include "comm/slow_paths.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.hpp"

namespace tutti::comm {
namespace {

/// Two hosts of one kernel; "" if there are none.
std::string containers(const PathFacts& facts) {
  if (facts.between.find("tcp") == std::string::npos) return "";
  std::map<std::string, size_t> first;  // by boot: a rank
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    const PathFacts::Member& member = facts.ranks[rank];
    if (member.boot.empty()) continue;
    const size_t other = first.emplace(member.boot, rank).first->second;
    if (facts.ranks[other].host == member.host) continue;
    const std::string& name = facts.ranks[other].name;
    return fmt::format(
        "{} run on one kernel in containers that cannot reach each other's memory, so they "
        "use TCP; start the containers with shared network, IPC and process namespaces (docker run --network host "
        "--ipc host --pid host) and shared memory serves them",
        name == member.name ? fmt::format("ranks {} and {}, both on {},", other, rank, name)
                            : fmt::format("ranks on {} and {}", name, member.name));
  }
  return "";
}

std::string cma(const PathFacts& facts) {
  if (!facts.processes_meet || !facts.cma_wanted || facts.cma_works) return "";
  const char* cause = "the kernel does not permit some rank to read another's memory";
  const char* remedy = "start all ranks of a host as one user, by one launcher (tutti run, mpirun, srun)";
  if (!facts.cma_on_itself) {
    cause = "a seccomp filter forbids process_vm_readv";
    remedy = "start the container with --cap-add SYS_PTRACE, or with a seccomp profile that allows it";
  } else if (facts.ptrace_scope >= 2) {
    cause = "kernel.yama.ptrace_scope is 2 or more";
    remedy = "set it to 1 or 0 (sysctl kernel.yama.ptrace_scope=1), or give the ranks CAP_SYS_PTRACE";
  }
  return fmt::format(
      "long messages between processes are copied twice, because {}; {}, or set TUTTI_CMA=off to use no CMA", cause,
      remedy);
}

std::string adapter(const PathFacts& facts) {
  if (facts.between.find("tcp") == std::string::npos) return "";
  const auto active = std::find_if(facts.ports.begin(), facts.ports.end(),
                                   [](const topo::PortReport& port) { return port.rdma && port.active; });
  if (active == facts.ports.end()) return "";
  return fmt::format("messages between hosts go over TCP, though {} is there ({}); `tutti info` shows what RDMA lacks",
                     active->name, facts.why_no_better.empty() ? "no transport for it" : facts.why_no_better);
}

}  // namespace

std::vector<std::string> slow_paths(const PathFacts& facts) {
  std::vector<std::string> all;
  for (const auto& reason : {containers, cma, adapter}) {
    std::string text = reason(facts);
    if (!text.empty()) all.push_back(std::move(text));
  }
  return all;
}

std::string shared_cores(const PathFacts& facts) {
  if (facts.ranks_per_core <= 1) return "";
  return fmt::format(
      "{:.3g} ranks share a core, so each message waits for a context switch; start fewer ranks, or give them more "
      "cores (affinity, the control group's limit)",
      facts.ranks_per_core);
}

}  // namespace tutti::comm
