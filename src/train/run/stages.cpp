// The trainer's part of pipeline parallelism: this rank's units and schedule, its traffic and its timeline.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

bool has_layer(const Model& units, const std::string& layer) {
  return std::any_of(units.begin(), units.end(),
                     [&](const auto& unit) { return layer.starts_with(unit->name() + "."); });
}

}  // namespace

/// Keeps this rank's chunks of the model. Their cost is their number of parameters: all but the embedding's take part
/// in one multiplication and one addition for each token.
void Trainer::cut_into_stages() {
  const int p = mesh_.shape().pp, chunks = options_.pipeline.chunks;
  pipeline_shape_ = {p, static_cast<int>(options_.micro_batches), chunks};
  schedule_ = make_schedule(options_.pipeline.schedule, pipeline_shape_, mesh_.at().pp);
  std::vector<double> costs;
  for (const auto& unit : units_) costs.push_back(static_cast<double>(unit->layout().count()));
  const std::vector<Chunk> stages = balanced_stages(costs, pipeline_shape_.stages());
  Model mine;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Chunk& stage = stages[static_cast<size_t>(pipeline_shape_.stage(mesh_.at().pp, chunk))];
    chunks_.push_back({mine.size(), mine.size() + stage.last - stage.first});
    const double pace = options_.pace / static_cast<double>(stage.last - stage.first);
    for (size_t i = stage.first; i < stage.last; ++i) {
      mine.push_back(pace > 0 ? make_paced(std::move(units_[i]), pace) : std::move(units_[i]));
    }
  }
  units_ = std::move(mine);
  std::erase_if(expert_loads_, [&](const auto& load) { return !has_layer(units_, load->name); });  // of other stages
  states_.clear();
  for (const auto& unit : units_) states_.push_back({.layout = &unit->layout()});
  if (p == 1) {
    boundary_ = std::make_unique<Boundary>();
  } else {
    auto pipeline = std::make_unique<PipelineBoundary>(mesh_.pp(), pipeline_shape_, ledger_, counters_);
    pipeline_ = pipeline.get();
    boundary_ = std::move(pipeline);
  }
}

std::vector<Traffic> Trainer::traffic() {
  std::vector<Traffic> all;
  for (const auto& [name, comm] : mesh_.axes()) {
    if (!comm->absent()) all.push_back({name, comm->sent(), comm->sent_by_formula()});
  }
  if (pipeline_ != nullptr) all.push_back({"stages", pipeline_->sent(), pipeline_->sent_by_formula()});
  return all;
}

Timeline Trainer::trace_step(StepReport& report) {
  const TimelineRecorder recorder(*executor_, pipeline_);
  report = step();
  const MeshShape& shape = mesh_.shape();
  std::string label = fmt::format("stage {}", mesh_.at().pp);
  for (int chunk = 1; chunk < pipeline_shape_.chunks; ++chunk) {
    label += fmt::format(", {}", pipeline_shape_.stage(mesh_.at().pp, chunk));
  }
  if (shape.dp > 1) label += fmt::format(", dp {}", mesh_.at().dp);
  if (shape.tp > 1) label += fmt::format(", tp {}", mesh_.at().tp);
  return recorder.gather(mesh_.world(), options_.pipeline.schedule, pipeline_shape_, label);
}

}  // namespace tutti::train
