#include "tools/plan/switched.hpp"

#include <algorithm>
#include <functional>

#include "base/format.hpp"
#include "select/explain.hpp"
#include "select/machine.hpp"
#include "tools/sim/scene.hpp"

namespace tutti::tools {
namespace {

using select::Candidate;
using Test = std::function<bool(const Candidate&)>;

bool by_switch(const Candidate& candidate) { return candidate.row.method == &exec::methods::nvls; }

/// The first, which are ordered by their costs, that can be used and passes; null: none does.
const Candidate* first_of(const std::vector<Candidate>& all, const Test& passes) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Candidate& one) { return one.rejected.empty() && passes(one); });
  return found == all.end() ? nullptr : &*found;
}

/// Why nvls can run none of them.
std::string why_none(const std::vector<Candidate>& all) {
  const auto first = std::find_if(all.begin(), all.end(), by_switch);
  return first == all.end() ? "it runs none of the catalogue's plans for so many ranks" : first->rejected;
}

/// As TUTTI_PLAN would have them.
std::vector<Candidate> candidates_given(const plan::Algorithm& algorithm, uint64_t bytes, select::CostInputs inputs) {
  inputs.order = {};
  inputs.own_orders.clear();
  inputs.given = {{Collective::AllReduce, &algorithm}};
  return select::candidates(Collective::AllReduce, bytes, inputs);
}

double part_of(const synth::Bound& bound, uint64_t bytes, double seconds) {
  return std::max(bound.seconds_per_byte() * static_cast<double>(bytes), bound.us * 1e-6) / seconds;
}

}  // namespace

select::CostInputs inputs_of_catalogue(const topo::Graph& graph, Rank ranks) {
  select::CostInputs inputs = select::inputs_of(graph, ranks).inputs;
  inputs.forced.clear();
  inputs.forced_methods.clear();
  inputs.given.clear();
  inputs.synthesised = nullptr;
  return inputs;
}

std::string why_no_nvls(const select::CostInputs& inputs) {
  for (const select::UsableMethod& usable : inputs.methods) {
    if (usable.method == &exec::methods::nvls) return usable.why_not;
  }
  return "the ranks are not on GPUs";
}

Switched switched_all_reduce(const select::CostInputs& inputs, const plan::Algorithm& trees, uint64_t bytes) {
  Switched made;
  made.why_not = why_no_nvls(inputs);
  if (!made.why_not.empty()) return made;
  const std::vector<Candidate> all = select::priced_candidates(Collective::AllReduce, bytes, inputs);
  const Candidate* const best = first_of(all, by_switch);
  if (best == nullptr) {
    made.why_not = why_none(all);
    return made;
  }
  made.algorithm = best->row.algorithm->name;
  made.plans = plan::generate_all(*best->row.algorithm, {Collective::AllReduce, inputs.ranks, nullptr});
  const plan::Algorithm& adopted = plan::adopt("synth", made.plans);  // verifies
  const std::vector<Candidate> own = candidates_given(adopted, bytes, inputs);
  const std::vector<Candidate> others = candidates_given(trees, bytes, inputs);
  const Candidate* const made_by = first_of(own, by_switch);
  if (made_by == nullptr) {
    made.why_not = why_none(own);
    return made;
  }
  made.seconds = made_by->seconds;
  if (const Candidate* const other = first_of(others, std::not_fn(by_switch))) {
    made.trees = other->seconds;
    made.trees_by = other->row.method->name;
  }
  return made;
}

std::string text_of(const Switched& switched, const synth::Bound& bound, uint64_t bytes) {
  if (!switched.why_not.empty()) {
    return fmt::format("  switch: nvls cannot run an all-reduce here ({}): trees alone\n", switched.why_not);
  }
  const char* const choice = !switched.trees    ? "the plan is the one that nvls runs"
                             : switched.taken() ? "the plan is the one that nvls runs, which is faster"
                                                : "the plan is that of the trees: nvls is no faster";
  const std::string trees = switched.trees
                                ? fmt::format("the trees (by {}): {} us", switched.trees_by, time_text(*switched.trees))
                                : "no other method runs the trees";
  return fmt::format(
      "  switch: each rank folds a part of the buffer and sends it to all ({}), which the NVLink switch does (nvls):\n"
      "          {} us, {:.1f} % of its bound; {}. Of the cost model, not simulated;\n"
      "          no switch was measured. So {}\n",
      switched.algorithm, time_text(switched.seconds), 100 * part_of(bound, bytes, switched.seconds), trees, choice);
}

nlohmann::ordered_json json_of(const Switched& switched, const synth::Bound& bound, uint64_t bytes) {
  if (!switched.why_not.empty()) return {{"method", "nvls"}, {"taken", false}, {"why_not", switched.why_not}};
  nlohmann::ordered_json page{{"method", "nvls"},
                              {"taken", switched.taken()},
                              {"algorithm", switched.algorithm},
                              {"model_seconds", switched.seconds},
                              {"of_bound", part_of(bound, bytes, switched.seconds)}};
  if (switched.trees) page.update({{"trees_by", switched.trees_by}, {"trees_model_seconds", *switched.trees}});
  return page;
}

std::string folding_text(const synth::Network& network, const synth::Bound& bound, const std::string& why_no_nvls) {
  const Rank n = network.ranks;
  std::string reached = bound.exact ? "a switch reaches it" : "a lower bound: it may be that no schedule reaches it";
  if (!why_no_nvls.empty()) {
    reached += fmt::format("; nvls cannot run here ({})", why_no_nvls);
  } else if (bound.exact) {  // one switch folds for all, and a rank's link to it binds
    reached += fmt::format("; nvls sends {}/{} of the buffer over each link, so it has at most {:.1f} % of this", n + 1,
                           n, 100.0 * n / (n + 1));
  }
  return fmt::format("  bound: {}\n         {}\n", synth::words_of(network, bound), reached);
}

}  // namespace tutti::tools
