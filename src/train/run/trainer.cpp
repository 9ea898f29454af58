#include "tutti/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/core/clock.hpp"

namespace tutti::train {
namespace {

/// The options, if all ranks have the same and they can be carried out. Nothing else has been exchanged by then.
const TrainOptions& checked(Communicator& world, const TrainOptions& options, const Corpus& corpus) {
  check_same(world, "options", fmt::format("a text of hash {:016x}\n{}", corpus.hash(), describe(options)));
  check_options(options, world.size());
  return options;
}

/// What a checkpoint's model must have in common with this one. The words are the flags of `tutti train`.
std::string facts_of(const TrainOptions& options) {
  const GptConfig& m = options.model;
  std::string facts = fmt::format("layers {}\nwidth {}\nheads {}\nlength {}\nvocabulary {}\nexperts {}", m.layers,
                                  m.width, m.heads, m.length, m.vocabulary, options.moe.experts);
  if (options.moe.experts > 0) facts += fmt::format("\ntop-k {}", options.moe.top_k);
  return facts;
}

}  // namespace

/// A micro-batch: the sequences' tokens, positions and targets.
struct Trainer::Batch {
  Buffer tokens, positions, targets;
  double loss = 0;
};

Trainer::Trainer(Communicator& world, const TrainOptions& options, Corpus corpus, std::unique_ptr<Device> device)
    : options_(checked(world, options, corpus)),
      corpus_(std::move(corpus)),
      device_(std::move(device)),
      ledger_(*device_),
      mesh_(world, options.mesh, counters_),
      parallel_(mesh_.tp(), options.sequence_parallel, mesh_.cp(), mesh_.ep()),
      positions_(context_positions(options.context, options.model.length, mesh_.at().cp, options.mesh.cp)),
      units_(make_gpt(options.model, parallel_, parts())) {
  for (const auto& unit : units_) states_.push_back({.layout = &unit->layout()});
  cut_into_stages();
  data_parallel_ = make_data_parallel(options.data_parallel, ledger_,
                                      {mesh_.replicas(), mesh_.expert_replicas(), mesh_.at().tp, mesh_.at().ep});
  data_parallel_->attach(states_);
  for (size_t i = 0; i < units_.size(); ++i) {
    data_parallel_->load(i, initial_values(units_[i]->layout(), options.seed));
  }
  data_parallel_->broadcast_parameters();
  executor_ = std::make_unique<Executor>(Executor::Parts{ledger_, units_, states_, *data_parallel_, *boundary_},
                                         chunks_, options.reproducible);
  executor_->checkpoint_activations = options.checkpoint_activations;
  make_batches();
}

Trainer::~Trainer() {
  if (running_) mesh_.abort();  // else strategies would wait here for the others, and these for this rank
}

size_t Trainer::parameters() const {
  size_t count = 0;
  for (const auto& unit : units_) count += unit->layout().count();
  return count;
}

GptParts Trainer::parts() {
  GptParts parts;
  if (options_.mesh.cp > 1) {
    parts.attention = [this](size_t heads, size_t head_width) {
      if (options_.context == ContextMode::Ulysses) return make_ulysses_attention(heads, head_width, mesh_.cp());
      if (!context_stream_) context_stream_.emplace();
      return make_ring_attention(heads, head_width, mesh_.cp(), *context_stream_);
    };
  }
  if (options_.moe.experts > 0) {
    parts.feed_forward = [this](Layout& layout, const std::string& prefix, size_t index) {
      expert_loads_.push_back(std::make_unique<ExpertLoad>());
      expert_loads_.back()->block = index;
      const GptConfig& model = options_.model;
      return make_moe(layout, prefix, model.width, model.hidden(), model.deviations(), options_.moe, parallel_,
                      mesh_.replicas(), *expert_loads_.back());
    };
  }
  return parts;
}

StateBytes Trainer::expected_state() const {
  size_t dense = 0, experts = 0;
  for (const auto& unit : units_) {
    for (const Parameter& p : unit->layout().parameters()) (p.expert ? experts : dense) += p.count;
  }
  const auto bytes = [&](size_t count, int replicas) {
    return state_bytes(options_.data_parallel.mode, options_.data_parallel.weights, static_cast<double>(count),
                       replicas);
  };
  const MeshShape& m = options_.mesh;
  const StateBytes a = bytes(dense, m.dp * m.ep * m.cp), b = bytes(experts, m.dp * m.cp);
  return {a.weights + b.weights, a.gradients + b.gradients, a.optimizer + b.optimizer};
}

CheckpointPart Trainer::checkpoint_part() { return {mesh_.world(), *device_, states_, *data_parallel_, mesh_.at().tp}; }

/// What a run may change when it resumes, although its curve then is another.
std::string Trainer::facts_of_run() const {
  return fmt::format("text {:016x}\nbatch {}\nseed {}\nrate {}", corpus_.hash(), options_.batch, options_.seed,
                     options_.adam.rate);
}

void Trainer::save(const std::string& folder, const std::string& job) {
  save_checkpoint(folder, {done_, facts_of(options_), facts_of_run(), job}, checkpoint_part());
}

std::unique_ptr<BackgroundSave> Trainer::begin_save(const std::string& folder, const std::string& job) {
  return std::make_unique<BackgroundSave>(folder, CheckpointOf{done_, facts_of(options_), facts_of_run(), job},
                                          checkpoint_part());
}

void Trainer::snapshot(Snapshots& snapshots) {
  snapshots.take({done_, facts_of(options_), facts_of_run()}, checkpoint_part());
}

bool Trainer::restore(Snapshots& snapshots) {
  const auto of = snapshots.restore(facts_of(options_), checkpoint_part());
  if (of) done_ = of->step;
  return of.has_value();
}

std::string Trainer::resume(const std::string& folder) {
  const CheckpointOf of = load_checkpoint(folder, facts_of(options_), checkpoint_part());
  done_ = of.step;
  return differences(of.run, facts_of_run());
}

void Trainer::make_batches() {
  const size_t sequences = options_.batch / static_cast<size_t>(mesh_.data_ways()) / options_.micro_batches;
  const size_t length = positions_.size(), tokens = sequences * length;
  std::vector<int32_t> positions(tokens);
  for (size_t i = 0; i < tokens; ++i) positions[i] = positions_[i % length];
  batches_.resize(options_.micro_batches);
  for (Batch& batch : batches_) {
    for (Buffer* part : {&batch.tokens, &batch.positions, &batch.targets}) {
      *part = ledger_.allocate(Kind::Buffers, tokens, DType::I32);
    }
    device_->upload(batch.positions.span().data, positions.data(), batch.positions.bytes());
    const auto ids = [](const Buffer& part) { return static_cast<const int32_t*>(part.span().data); };
    views_.push_back({.sequences = sequences,
                      .length = length,
                      .tokens = ids(batch.tokens),
                      .positions = ids(batch.positions),
                      .targets = ids(batch.targets),
                      .loss = &batch.loss});
  }
}

void Trainer::load_batches() {
  const size_t length = options_.model.length;
  std::vector<int32_t> tokens(views_[0].tokens_count()), targets(tokens.size());
  std::vector<int32_t> whole(length), whole_targets(length);  // a sequence, of which this rank has some positions
  const auto ways = static_cast<uint64_t>(mesh_.data_ways()), mine = static_cast<uint64_t>(mesh_.data_index());
  for (size_t micro = 0; micro < batches_.size(); ++micro) {
    Batch& batch = batches_[micro];
    // Over all ranks a micro-batch has the same sequences as one process's: experts' load balance depends on them.
    uint64_t index = (micro * ways + mine) * views_[0].sequences;
    for (size_t i = 0; i < tokens.size();) {
      corpus_.sequence(options_.seed, static_cast<uint64_t>(done_), index++, length, whole.data(),
                       whole_targets.data());
      for (const auto position : positions_) {
        tokens[i] = whole[static_cast<size_t>(position)];
        targets[i++] = whole_targets[static_cast<size_t>(position)];
      }
    }
    device_->upload(batch.tokens.span().data, tokens.data(), batch.tokens.bytes());
    device_->upload(batch.targets.span().data, targets.data(), batch.targets.bytes());
  }
}

StepReport Trainer::step() {
  const double start = now(), waited = counters_.waited();
  load_batches();
  for (const auto& load : expert_loads_) load->reset();
  running_ = true;
  data_parallel_->start_step();
  if (pipeline_ != nullptr) pipeline_->start_step(schedule_, units_, chunks_, views_);
  executor_->run(schedule_, views_);
  StepReport report{.step = done_ + 1, .loss = mean_loss(), .gradient_norm = gradient_norm()};
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
    running_ = false;  // all ranks know
    throw Error(Code::InvalidUsage, fmt::format("step {}: the loss is {} and the norm of the gradients {}: training "
                                                "diverges. Take a lower rate, a longer warm-up, or clip more",
                                                report.step, report.loss, report.gradient_norm));
  }
  optimize(adam_of(report));
  done_ = report.step;
  report_experts(report);
  running_ = false;
  if (options_.compare_every > 0 && done_ % options_.compare_every == 0) compare_replicas();
  report.tokens = options_.batch * options_.model.length;
  report.waiting = counters_.waited() - waited;
  report.busy = data_parallel_->overlap().busy;
  report.exposed = data_parallel_->overlap().waited;
  report.seconds = now() - start;
  return report;
}

void Trainer::optimize(const AdamStep& adam) {
  const double start = now();
  data_parallel_->step(adam);
  if (counters_.recorder) counters_.recorder->work.push_back({.work = Work::Optimizer, .start = start, .end = now()});
}

AdamStep Trainer::adam_of(const StepReport& report) const {
  AdamStep adam = options_.adam;
  adam.step = report.step;
  adam.scale = 1 / static_cast<float>(options_.micro_batches);
  if (options_.clip > 0 && report.gradient_norm > options_.clip) {
    adam.scale *= static_cast<float>(options_.clip / report.gradient_norm);
  }
  if (adam.step < options_.warmup) adam.rate *= static_cast<float>(adam.step) / static_cast<float>(options_.warmup);
  return adam;
}

double Trainer::mean_loss() {
  double sum = 0;
  for (const Batch& batch : batches_) sum += batch.loss;
  const double mean = sum / static_cast<double>(batches_.size());
  // Of a pipeline, only the rank that has the head has losses.
  return mesh_.pp().sum(Purpose::Loss, mesh_.replicas().sum(Purpose::Loss, mean)) / mesh_.replicas().size();
}

double Trainer::gradient_norm() {
  double sum = data_parallel_->square_sum();
  for (Collectives* axis : {&mesh_.tp(), &mesh_.ep(), &mesh_.pp()}) sum = axis->sum(Purpose::Norm, sum);
  return std::sqrt(sum) / static_cast<double>(options_.micro_batches);
}

}  // namespace tutti::train
