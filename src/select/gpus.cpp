#include "select/gpus.hpp"

#include <algorithm>
#include <set>

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

}  // namespace tutti::select
