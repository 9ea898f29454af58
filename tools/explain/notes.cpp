#include "tools/explain/notes.hpp"

#include <algorithm>
#include <set>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/calibration.hpp"
#include "select/entries.hpp"
#include "select/forced.hpp"
#include "select/profile.hpp"

namespace tutti::tools {

std::vector<std::string> notes_of_variables(Collective collective, bool gpus, const select::CostInputs& inputs,
                                            const std::vector<select::Candidate>& all) {
  std::vector<std::string> notes;
  if (!env().plan.empty() && inputs.given.find(collective) == inputs.given.end()) {
    notes.push_back(fmt::format("TUTTI_PLAN={} is not used: it has no plan for {} of {}", env().plan,
                                name_of(collective), counted(static_cast<uint64_t>(inputs.ranks), "rank")));
  }
  if (!gpus) {
    const std::string text = select::not_of_host(inputs.forced_methods);
    if (!text.empty()) notes.push_back(text);
    return notes;
  }
  for (std::string& text : select::unused_demands(inputs, collective)) notes.push_back(std::move(text));
  for (const auto& [of, method] : inputs.forced_methods) {
    if (!of.empty() && of != name_of(collective)) continue;
    const auto is_it = [&wanted = method](const select::Candidate& one) {
      return one.rejected.empty() && wanted == one.row.method->name;
    };
    if (std::any_of(all.begin(), all.end(), is_it)) continue;
    notes.push_back(fmt::format("TUTTI_METHOD={} is not used: no candidate for {} runs by {}", method,
                                name_of(collective), method));
  }
  return notes;
}

std::vector<std::string> notes_of_shared_gpus(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks) {
  std::set<topo::NodeId> gpus;
  for (const topo::NodeId node : ranks) {
    if (graph.nodes[node].kind == topo::NodeKind::Gpu) gpus.insert(node);
  }
  if (gpus.empty() || gpus.size() == ranks.size()) return {};
  return {fmt::format("{} on {}: some share one, and their kernels its memory and its links; -n {} gives each its own",
                      counted(ranks.size(), "rank"), counted(gpus.size(), "GPU"), gpus.size())};
}

std::vector<std::string> notes_of_calibration() {
  if (select::has_host_profile() || !env().calibration || select::local_calibration() != nullptr) return {};
  return {"links have the library's constants, for the quick calibration has no figures: " +
          select::why_no_calibration()};
}

}  // namespace tutti::tools
