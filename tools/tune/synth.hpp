// `tutti tune --synth`: plans made for the machine and the ranks of a job, kept where communicators look for them.
#pragma once

#include <memory>
#include <string>

#include "select/inputs.hpp"
#include "topo/graph.hpp"

namespace tutti::tools {

/// Plans for the job whose topology this is, with its measured links, and the inputs that follow from it, written to
/// the cache folder.
///
/// While the job is measured, its communicators know nothing of links yet, so their topology is `measured_on`: as long
/// as this object lives, the same plans are kept for that one too.
class TunedPlans {
 public:
  TunedPlans(const topo::Graph& graph, const topo::Graph& measured_on, const select::CostInputs& inputs);
  ~TunedPlans();
  TunedPlans(const TunedPlans&) = delete;
  TunedPlans& operator=(const TunedPlans&) = delete;

  const std::shared_ptr<const select::Synthesised>& plans() const { return plans_; }
  /// "9 plans for 4 ranks, in FILE", and a line for each bound.
  std::string words() const;

 private:
  std::shared_ptr<const select::Synthesised> plans_;
  std::string path_, passing_path_;
  Rank ranks_;
};

}  // namespace tutti::tools
