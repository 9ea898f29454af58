#include "select/given.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "plan/json.hpp"

namespace tutti::select {
namespace {

void warn_once(const std::string& path, Rank planned, Rank ranks) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, Rank>> warned;
  const std::lock_guard lock(mutex);
  if (!warned.emplace(path, ranks).second) return;
  log_warn("TUTTI_PLAN: {} is for {}, so a communicator of {} does not use it", path,
           counted(static_cast<uint64_t>(planned), "rank"), ranks);
}

plan::PlanSet read_plans(const std::string& path) {
  try {
    return plan::load_plans(path, plan::Proof::Omit);
  } catch (const Error& error) {
    throw_error(error.code(), "TUTTI_PLAN: {}", error.what());
  }
}

std::vector<std::string> separate(const std::string& paths) {
  std::vector<std::string> all;
  for (size_t at = 0; at < paths.size();) {
    const size_t end = std::min(paths.find(':', at), paths.size());
    if (end > at) all.push_back(paths.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

const plan::Algorithm& adopted(const std::string& path, plan::PlanSet set) {
  try {
    return plan::adopt(set.name.empty() ? "plan" : set.name, std::move(set.plans));
  } catch (const Error& error) {
    throw_error(error.code(), "TUTTI_PLAN: {}: {}", path, error.what());
  }
}

}  // namespace

Given given_plans(const std::string& paths, Rank ranks) {
  Given given;
  std::map<Collective, std::string> from;
  for (const std::string& path : separate(paths)) {
    plan::PlanSet set = read_plans(path);
    const auto planned = static_cast<Rank>(set.plans.size());
    if (planned != ranks) {
      warn_once(path, planned, ranks);
      continue;
    }
    const plan::Algorithm& algorithm = adopted(path, std::move(set));
    if (!given.emplace(algorithm.collective, &algorithm).second) {
      throw_error(Code::InvalidArgument, "TUTTI_PLAN: {} and {} both are plans for {} on {}; give one of them",
                  from[algorithm.collective], path, name_of(algorithm.collective),
                  counted(static_cast<uint64_t>(ranks), "rank"));
    }
    from[algorithm.collective] = path;
  }
  return given;
}

void check_plan_files(const std::string& paths) {
  for (const std::string& path : separate(paths)) read_plans(path);
}

}  // namespace tutti::select
