#include "tutti/train/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace tutti::train {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The modes that this build has no code for yet.
void check_options(const TrainOptions& o, const Communicator& world) {
  const auto bad = [](const std::string& text) { throw Error(Code::InvalidArgument, text); };
  const std::string mesh = objection(o.mesh, world.size());
  if (!mesh.empty()) bad(fmt::format("rank {}: {}", world.rank(), mesh));
  if (o.mesh.cp > 1 || o.mesh.ep > 1) bad("cp and ep above 1 are not built yet: leave them out");
  const size_t parts = static_cast<size_t>(o.mesh.dp * o.mesh.ep) * o.micro_batches;
  if (parts == 0 || o.batch == 0 || o.batch % parts != 0) {
    bad(fmt::format("the batch of {} sequences cannot be divided by dp {} x ep {} x {} micro-batches", o.batch,
                    o.mesh.dp, o.mesh.ep, o.micro_batches));
  }
  const PipelineShape pipeline{o.mesh.pp, static_cast<int>(o.micro_batches), o.pipeline.chunks};
  const std::string schedule = objection(o.pipeline.schedule, pipeline);
  if (!schedule.empty()) bad(schedule);
  if (o.data_parallel.weights != DType::F32 && o.data_parallel.weights != DType::BF16) {
    bad(fmt::format("weights are f32 or bf16, not {}", name_of(o.data_parallel.weights)));
  }
}

}  // namespace

/// A micro-batch: the sequences' tokens, positions and targets.
struct Trainer::Batch {
  Buffer tokens, positions, targets;
  double loss = 0;
};

Trainer::Trainer(Communicator& world, const TrainOptions& options, Corpus corpus)
    : options_((check_options(options, world), options)),
      corpus_(std::move(corpus)),
      device_(make_host_device()),
      ledger_(*device_),
      mesh_(world, options.mesh, counters_),
      parallel_(mesh_.tp(), options.sequence_parallel, mesh_.cp(), mesh_.ep()),
      units_(make_gpt(options.model, parallel_)) {
  for (const auto& unit : units_) states_.push_back({.layout = &unit->layout()});
  check_same_model(
      mesh_.world(), states_, options.data_parallel.weights,
      fmt::format("a text of hash {:016x}\na batch of {}, in {} micro-batches, seed {}\nschedule {}, {} chunks",
                  corpus_.hash(), options.batch, options.micro_batches, options.seed,
                  name_of(options.pipeline.schedule), options.pipeline.chunks));
  cut_into_stages();
  data_parallel_ =
      make_data_parallel(options.data_parallel, ledger_, {mesh_.replicas(), mesh_.expert_replicas(), mesh_.at().tp});
  data_parallel_->attach(states_);
  for (size_t i = 0; i < units_.size(); ++i) {
    data_parallel_->load(i, initial_values(units_[i]->layout(), options.seed));
  }
  data_parallel_->broadcast_parameters();
  executor_ = std::make_unique<Executor>(Executor::Parts{ledger_, units_, states_, *data_parallel_, *boundary_},
                                         chunks_, options.reproducible);
  make_batches();
}

Trainer::~Trainer() = default;

size_t Trainer::parameters() const {
  size_t count = 0;
  for (const auto& unit : units_) count += unit->layout().count();
  return count;
}

void Trainer::make_batches() {
  const size_t sequences = options_.batch / static_cast<size_t>(mesh_.data_ways()) / options_.micro_batches;
  const size_t length = options_.model.length, tokens = sequences * length;
  std::vector<int32_t> positions(tokens);
  for (size_t i = 0; i < tokens; ++i) positions[i] = static_cast<int32_t>(i % length);
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
  uint64_t index = static_cast<uint64_t>(mesh_.data_index()) * batches_.size() * views_[0].sequences;
  for (Batch& batch : batches_) {
    for (size_t i = 0; i < tokens.size(); i += length) {
      corpus_.sequence(options_.seed, static_cast<uint64_t>(done_), index++, length, &tokens[i], &targets[i]);
    }
    device_->upload(batch.tokens.span().data, tokens.data(), batch.tokens.bytes());
    device_->upload(batch.targets.span().data, targets.data(), batch.targets.bytes());
  }
}

StepReport Trainer::step() {
  const double start = now(), waited = counters_.waited();
  load_batches();
  data_parallel_->start_step();
  if (pipeline_ != nullptr) pipeline_->start_step(schedule_, units_, chunks_, views_);
  executor_->run(schedule_, views_);
  ++done_;
  StepReport report{.step = done_, .gradient_norm = gradient_norm()};
  AdamStep adam = options_.adam;
  adam.step = done_;
  adam.scale = 1 / static_cast<float>(options_.micro_batches);
  if (options_.clip > 0 && report.gradient_norm > options_.clip) {
    adam.scale *= static_cast<float>(options_.clip / report.gradient_norm);
  }
  if (done_ < options_.warmup) adam.rate *= static_cast<float>(done_) / static_cast<float>(options_.warmup);
  data_parallel_->step(adam);
  report.loss = mean_loss();
  report.tokens = options_.batch * options_.model.length;
  report.waiting = counters_.waited() - waited;
  report.busy = data_parallel_->overlap().busy;
  report.exposed = data_parallel_->overlap().waited;
  report.seconds = now() - start;
  return report;
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
  sum = mesh_.pp().sum(Purpose::Norm, mesh_.tp().sum(Purpose::Norm, sum));
  return std::sqrt(sum) / static_cast<double>(options_.micro_batches);
}

}  // namespace tutti::train
