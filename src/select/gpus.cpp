#include "select/gpus.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "topo/constants.hpp"

namespace tutti::select {

std::vector<topo::Figure> figures_of_gpus(const Profile* profile) {
  using Between = topo::Figure::Between;
  std::vector<topo::Figure> figures;
  for (const Between between : {Between::Threads, Between::Processes}) {
    figures.push_back({.between = between,
                       .us = machine_constants().cuda_alpha * 1e6,
                       .transport = "cuda",
                       .origin = "the library's constants, not measured here; rates are those of the links"});
    if (profile == nullptr) continue;
    for (const auto& [kind, link] : profile->gpu_links) {
      figures.push_back({.between = between,
                         .us = link.alpha * 1e6,
                         .gbps = 1e-9 / std::max(link.beta, 1e-15),
                         .over = kind,
                         .transport = "cuda",
                         .origin = "measured by `tutti tune`"});
    }
  }
  return figures;
}

uint64_t count_gpus(const topo::Graph& job) {
  return std::set<topo::NodeId>(job.ranks.begin(), job.ranks.end()).size();
}

std::shared_ptr<const Profile> profile_for(const MeasuredGpus& gpus) {
  auto profile = local_profile();
  if (profile == nullptr || !profile->gpus) return nullptr;
  static std::once_flag* const kOnce = new std::once_flag;
  const std::string why = why_of_other_gpus(*profile, gpus);
  if (why.empty()) {
    if (gpus.driver.empty() || profile->gpus->driver == gpus.driver) return profile;
    std::call_once(*kOnce, [&] {
      log_warn(
          "the profile's times of GPUs were measured with driver {}, and this is {}: `tutti tune --device cuda` "
          "measures again",
          profile->gpus->driver, gpus.driver);
    });
    return profile;
  }
  if (!env().profile.empty()) {
    throw_error(Code::InvalidArgument,
                "TUTTI_PROFILE: {} {}: `tutti tune --device cuda` measures here, TUTTI_PROFILE=off uses none",
                env().profile, why);
  }
  std::call_once(*kOnce, [&] {
    log_warn("the profile's times of GPUs are not used: it {}; `tutti tune --device cuda` measures here", why);
  });
  return nullptr;
}

}  // namespace tutti::select
