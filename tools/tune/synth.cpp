#include "tools/tune/synth.hpp"

#include <unistd.h>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/private_file.hpp"
#include "select/synthesised.hpp"
#include "tools/progress.hpp"
#include "tools/synthesis.hpp"

namespace tutti::tools {

TunedPlans::TunedPlans(const topo::Graph& graph, const topo::Graph& measured_on, const select::CostInputs& inputs)
    : ranks_(static_cast<Rank>(graph.ranks.size())) {
  Progress progress;
  const auto tell = [&](const std::string& what) { progress.show("# making plans: " + what); };
  select::SynthesisedText page = synthesise_for(graph, graph.ranks, inputs, tell);
  const std::string text = select::to_text(page);
  if (text.size() > select::kMaxSynthesised) {
    throw_error(Code::Unsupported, "--synth: the plans for {} take {} bytes of text, and a communicator exchanges {}",
                counted(static_cast<uint64_t>(ranks_), "rank"), text.size(), select::kMaxSynthesised);
  }
  tell("proving them");
  plans_ = select::read_synthesised(text, page.key, ranks_);
  path_ = select::synthesised_path(page.key);
  if (path_.empty()) throw_error(Code::InvalidArgument, "--synth: there is no place for the plans: set HOME");
  write_private(path_, text);
  page.key = select::synthesis_key(measured_on, select::nodes_of_plans(measured_on, measured_on.ranks, inputs.order));
  const std::string passing = select::synthesised_path(page.key);
  if (passing == path_ || access(passing.c_str(), F_OK) == 0) return;
  write_private(passing, select::to_text(page));
  passing_path_ = passing;
}

TunedPlans::~TunedPlans() {
  if (!passing_path_.empty()) unlink(passing_path_.c_str());
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
