#include "select/links_alone.hpp"

#include "exec/method.hpp"

namespace tutti::select {
namespace {

/// A method without a price of its own.
const exec::Method kLinks{.name = "links", .backend = "cuda"};

}  // namespace

std::optional<double> links_alone(const Candidate& candidate, uint64_t bytes, const CostInputs& inputs) {
  const exec::Method& method = *candidate.row.method;
  if (!candidate.rejected.empty() || method.is_on_host() || method == exec::methods::nvls) return {};
  CostInputs bare = inputs;
  bare.methods = {UsableMethod{.method = &kLinks, .width = candidate.row.width}};
  bare.profile = nullptr;
  bare.forced_methods.clear();
  const plan::Algorithm& algorithm = *candidate.row.algorithm;
  if (!bare.given.contains(algorithm.collective)) bare.forced = {{name_of(algorithm.collective), algorithm.name}};
  for (const Candidate& by_links : candidates(algorithm.collective, bytes, bare)) {
    if (by_links.rejected.empty()) return by_links.predicted.seconds();
  }
  return {};
}

}  // namespace tutti::select
