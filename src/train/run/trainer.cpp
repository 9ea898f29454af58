#include "tutti/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  if (o.mesh.ep > 1 && o.moe.experts == 0) {
    bad(fmt::format("ep is {}, but the model has no experts: choose their number, a multiple of ep, or leave out ep",
                    o.mesh.ep));
  }
  const size_t parts = static_cast<size_t>(o.mesh.dp * o.mesh.ep) * o.micro_batches;
  if (parts == 0 || o.batch == 0 || o.batch % parts != 0) {
    bad(fmt::format("the batch of {} sequences cannot be divided by dp {} x ep {} x {} micro-batches", o.batch,
                    o.mesh.dp, o.mesh.ep, o.micro_batches));
  }
  if (o.sequence_parallel && o.mesh.tp == 1) {
    bad("sequence parallelism divides among tensor-parallel ranks what they would each hold: it needs tp above 1");
  }
  if (o.sequence_parallel) {
    const size_t tokens = o.batch / parts * o.model.length / static_cast<size_t>(o.mesh.cp);
    check_divides("tp", static_cast<size_t>(o.mesh.tp), "the tokens of a micro-batch", tokens);
  }
  const PipelineShape pipeline{o.mesh.pp, static_cast<int>(o.micro_batches), o.pipeline.chunks};
  const std::string schedule = objection(o.pipeline.schedule, pipeline);
  if (!schedule.empty()) bad(schedule);
  if (o.data_parallel.weights != DType::F32 && o.data_parallel.weights != DType::BF16) {
    bad(fmt::format("weights are f32 or bf16, not {}", name_of(o.data_parallel.weights)));
  }
}

/// What a checkpoint's model must have in common with this one.
std::string facts_of(const TrainOptions& options) {
  const GptConfig& m = options.model;
  std::string facts = fmt::format("{} layers\nwidth {}\n{} heads\nlength {}\n{} tokens of vocabulary", m.layers,
                                  m.width, m.heads, m.length, m.vocabulary);
  if (options.moe.experts > 0) facts += fmt::format("\n{} experts, {} a token", options.moe.experts, options.moe.top_k);
  return facts;
}

}  // namespace

/// A micro-batch: the sequences' tokens, positions and targets.
struct Trainer::Batch {
  Buffer tokens, positions, targets;
  double loss = 0;
};

Trainer::Trainer(Communicator& world, const TrainOptions& options, Corpus corpus, std::unique_ptr<Device> device)
    : options_((check_options(options, world), options)),
      corpus_(std::move(corpus)),
      device_(std::move(device)),
      ledger_(*device_),
      mesh_(world, options.mesh, counters_),
      parallel_(mesh_.tp(), options.sequence_parallel, mesh_.cp(), mesh_.ep()),
      positions_(context_positions(options.context, options.model.length, mesh_.at().cp, options.mesh.cp)),
      units_(make_gpt(options.model, parallel_, parts())) {
  for (const auto& unit : units_) states_.push_back({.layout = &unit->layout()});
  check_same_model(
      mesh_.world(), states_, options.data_parallel.weights,
      fmt::format("a text of hash {:016x}\na batch of {}, in {} micro-batches, seed {}\nschedule {}, {} chunks",
                  corpus_.hash(), options.batch, options.micro_batches, options.seed,
                  name_of(options.pipeline.schedule), options.pipeline.chunks));
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

Trainer::~Trainer() = default;

size_t Trainer::parameters() const {
  size_t count = 0;
  for (const auto& unit : units_) count += unit->layout().count();
  return count;
}

GptParts Trainer::parts() {
  GptParts parts;
  if (options_.mesh.cp > 1) {
    parts.attention = [this](size_t heads, size_t head_width) {
      return options_.context == ContextMode::Ring ? make_ring_attention(heads, head_width, mesh_.cp(), context_stream_)
                                                   : make_ulysses_attention(heads, head_width, mesh_.cp());
    };
  }
  if (options_.moe.experts > 0) {
    parts.feed_forward = [this](Layout& layout, const std::string& prefix, size_t /*index*/) {
      expert_loads_.push_back(std::make_unique<ExpertLoad>());
      return make_moe(layout, prefix, options_.model.width, options_.model.hidden(), 0.02f, options_.moe, parallel_,
                      mesh_.replicas(), *expert_loads_.back());
    };
  }
  return parts;
}

void Trainer::report_experts(StepReport& report) const {
  for (const auto& load : expert_loads_) {
    report.balance += load->balance / static_cast<double>(load->calls * expert_loads_.size());
    report.busiest = std::max(report.busiest, load->busiest());
  }
}

StateBytes Trainer::expected_state() const {
  return state_bytes(options_.data_parallel.mode, options_.data_parallel.weights, static_cast<double>(parameters()),
                     options_.mesh.dp * options_.mesh.ep * options_.mesh.cp);
}

CheckpointPart Trainer::checkpoint_part() { return {mesh_.world(), *device_, states_, *data_parallel_, mesh_.at().tp}; }

void Trainer::save(const std::string& folder) {
  save_checkpoint(folder, {done_, facts_of(options_)}, checkpoint_part());
}

void Trainer::resume(const std::string& folder) {
  done_ = load_checkpoint(folder, facts_of(options_), checkpoint_part());
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
  uint64_t index = static_cast<uint64_t>(mesh_.data_index()) * batches_.size() * views_[0].sequences;
  for (Batch& batch : batches_) {
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
  report_experts(report);
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
  for (Collectives* axis : {&mesh_.tp(), &mesh_.ep(), &mesh_.pp()}) sum = axis->sum(Purpose::Norm, sum);
  return std::sqrt(sum) / static_cast<double>(options_.micro_batches);
}

}  // namespace tutti::train
