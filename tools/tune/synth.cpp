#include "tools/tune/synth.hpp"

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/private_file.hpp"
#include "select/synthesis.hpp"
#include "select/synthesised.hpp"
#include "tools/progress.hpp"

namespace tutti::tools {

TunedPlans::TunedPlans(const topo::Graph& graph, const select::CostInputs& inputs)
    : ranks_(static_cast<Rank>(graph.ranks.size())) {
  Progress progress;
  const auto tell = [&](const std::string& what) { progress.show("# making plans: " + what); };
  const select::SynthesisedText page = select::synthesise_for(graph, graph.ranks, inputs, tell);
  const std::string text = select::to_text(page);
  if (text.size() > select::kMaxSynthesised) {
    throw_error(Code::Unsupported, "--synth: the plans for {} take {} bytes of text, and a communicator exchanges {}",
                counted(static_cast<uint64_t>(ranks_), "rank"), text.size(), select::kMaxSynthesised);
  }
  tell("proving them");
  const std::vector<topo::NodeId> nodes = select::nodes_of_plans(graph, graph.ranks, inputs.order);
  try {
    plans_ = select::read_synthesised(text, page.key, ranks_, select::deadline_of_proofs(nodes));
  } catch (const Error& error) {
    throw_error(error.code(), "--synth: no communicator would use the plans, so none are kept: {}", error.what());
  }
  path_ = select::synthesised_path(page.key);
  if (path_.empty()) throw_error(Code::InvalidArgument, "--synth: there is no place for the plans: set HOME");
  write_private(path_, text);
}

std::string TunedPlans::words() const {
  std::string text = fmt::format("{} for {}, in {}", counted(plans_->algorithms.size(), "plan"),
                                 counted(static_cast<uint64_t>(ranks_), "rank"), path_);
  for (const auto& [collective, bound] : plans_->bounds) {
    text += fmt::format("\n  {}, bound: {}", name_of(collective), bound.words);
  }
  return text;
}

}  // namespace tutti::tools
