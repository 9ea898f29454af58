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

StepReport Trainer::rehearse_step() {
  const TimelineRecorder recorder(*executor_, pipeline_, counters_, algorithms_, true);
  return step();
}

/// "Step 20: DDP over 4 replicas, pipeline 1f1b of 4 stages, 8 micro-batches".
std::string Trainer::title_of_step() const {
  const MeshShape& shape = mesh_.shape();
  constexpr const char* kModes[] = {"DDP", "parameter server", "ZeRO-1", "ZeRO-2", "ZeRO-3"};
  std::string title = fmt::format("Step {}", done_);
  const auto add = [&](const std::string& words) {
    title += (title.find(':') == std::string::npos ? ": " : ", ") + words;
  };
  const int replicas = shape.dp * shape.ep * shape.cp;
  if (replicas > 1)
    add(fmt::format("{} over {} replicas", kModes[static_cast<size_t>(options_.data_parallel.mode)], replicas));
  if (shape.pp > 1) {
    add(fmt::format("pipeline {} of {} stages", name_of(options_.pipeline.schedule), pipeline_shape_.stages()));
    if (pipeline_shape_.chunks > 1) add(fmt::format("{} chunks a rank", pipeline_shape_.chunks));
  }
  if (shape.tp > 1) {
    add(fmt::format("tensor {}parallelism of {} ranks", options_.sequence_parallel ? "and sequence " : "", shape.tp));
  }
  if (shape.cp > 1) {
    add(fmt::format("{} attention over {} ranks", options_.context == ContextMode::Ulysses ? "Ulysses" : "ring",
                    shape.cp));
  }
  if (shape.ep > 1) add(fmt::format("experts over {} ranks", shape.ep));
  if (options_.micro_batches > 1) add(fmt::format("{} micro-batches", options_.micro_batches));
  if (options_.checkpoint_activations) add("activation checkpointing");
  return title;
}

Timeline Trainer::trace_step(StepReport& report) {
  TimelineRecorder recorder(*executor_, pipeline_, counters_, algorithms_);
  report = step();
  const MeshShape &shape = mesh_.shape(), &at = mesh_.at();
  RankTimeline mine;
  for (const auto& unit : units_) mine.units.push_back(unit->name());
  const auto add = [&](const std::string& words) { mine.label += (mine.label.empty() ? "" : ", ") + words; };
  if (shape.pp > 1) add(fmt::format("stage {}", at.pp));
  for (int chunk = 1; chunk < pipeline_shape_.chunks; ++chunk) {
    mine.label += fmt::format(", {}", pipeline_shape_.stage(at.pp, chunk));
  }
  if (shape.dp > 1) add(fmt::format("dp {}", at.dp));
  if (shape.cp > 1) add(fmt::format("cp {}", at.cp));
  if (shape.ep > 1) add(fmt::format("ep {}", at.ep));
  if (shape.tp > 1) add(fmt::format("tp {}", at.tp));
  Timeline timeline = recorder.gather(mesh_.world(), options_.pipeline.schedule, pipeline_shape_, std::move(mine));
  timeline.title = title_of_step();
  timeline.stage_distance = shape.ep * shape.cp * shape.tp;
  return timeline;
}

}  // namespace tutti::train
