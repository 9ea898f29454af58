// `tutti tune --synth`: plans made for the machine and the ranks of a job, kept where communicators look for them.
#pragma once

#include <memory>
#include <string>

#include "select/inputs.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

/// Plans for the job whose topology this is, with its measured links, and the inputs that follow from it, written to
/// the cache folder.
class TunedPlans {
 public:
  TunedPlans(const topo::Graph& graph, const select::CostInputs& inputs);

  const std::shared_ptr<const select::Synthesised>& plans() const { return plans_; }
  const std::string& path() const { return path_; }
  /// "9 plans for 4 ranks, in FILE", and a line for each bound.
  std::string words() const;

 private:
  std::shared_ptr<const select::Synthesised> plans_;
  std::string path_;
  Rank ranks_;
};

}  // namespace tutti::tools
