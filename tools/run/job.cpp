#include "tools/run/job.hpp"

#include <fmt/format.h>

#include "base/env.hpp"
#include "base/secret.hpp"
#include "tools/run/restarts.hpp"

namespace tutti::tools {

std::vector<std::string> rank_environment(const Job& job, int rank) {
  const Placement& placement = job.ranks[static_cast<size_t>(rank)];
  std::vector<std::string> variables;
  const auto set = [&variables](const char* name, const auto& value) {
    variables.push_back(fmt::format("{}={}", name, value));
  };
  set("TUTTI_RANK", rank);
  set("TUTTI_SIZE", job.ranks.size());
  set("TUTTI_LOCAL_RANK", placement.local_rank);
  set("TUTTI_LOCAL_SIZE", placement.local_size);
  set("TUTTI_JOB", job.name);
  set("TUTTI_KEY", job.secret);
  if (!job.root.empty()) {
    set("TUTTI_ROOT_ADDR", job.root);
    set("TUTTI_PORT", job.port);
  }
  if (job.restarts != nullptr) set("TUTTI_JOB_SERVER", job.restarts->address());
  return variables;
}

void name_job(Job& job) {
  job.name = random_hex(16);
  job.secret = env().key.empty() ? random_hex(32) : env().key;
}

uint64_t staging_bytes() {
  constexpr uint64_t kUsual = 8 << 20;  // what calls of a few sizes take of it
  return env().arena ? env().arena->value : kUsual;
}

}  // namespace tutti::tools
