// The planner's rows beside what the layer holds and sends, on small meshes. The layer computes in f32, so where the
// planner counts 2 bytes of an activation the layer has 4; what it holds of the model is bf16 with an f32 master, as
// the planner assumes. Activations of the model's two ends are no row of the planner's: two models are subtracted.
#include <gtest/gtest.h>

#include <mutex>

#include "train/curves.hpp"
#include "train/planner/formulas.hpp"
#include "train/planner/scenario.hpp"

namespace tutti::train {
namespace {

constexpr double kWider = 2;  // bytes of an activation, by the planner's

/// What the planner says of the layer's options; `parameters`: of the rank's units.
class Plan {
 public:
  Plan(const TrainOptions& o, size_t parameters) {
    planner::Scenario scenario;
    scenario.model = {.parameters = 1e6,
                      .layers = static_cast<int64_t>(o.model.layers),
                      .hidden = static_cast<int64_t>(o.model.width),
                      .heads = static_cast<int64_t>(o.model.heads),
                      .kv_heads = static_cast<int64_t>(o.model.heads),
                      .ffn = static_cast<int64_t>(o.model.hidden()),
                      .vocabulary = 256,
                      .sequence = static_cast<int64_t>(o.model.length),
                      .attention = static_cast<int64_t>(o.model.width),
                      .keys = 2 * static_cast<int64_t>(o.model.width)};
    scenario.cluster.gpus = o.mesh.ranks();
    scenario.job = {.batch = static_cast<int64_t>(o.batch),
                    .schedule = o.pipeline.schedule == ScheduleKind::ZeroBubble
                                    ? planner::Schedule::ZeroBubbleH1
                                    : planner::Schedule::OneForwardOneBackward,
                    .sequence_parallel = o.sequence_parallel};
    values_ = planner::values_of(scenario);
    const int mode = static_cast<int>(o.data_parallel.mode);
    const auto ways = static_cast<size_t>(o.mesh.dp * o.mesh.ep) * o.micro_batches;
    planner::set_layout(values_, {.dp = o.mesh.dp,
                                  .pp = o.mesh.pp,
                                  .cp = o.mesh.cp,
                                  .tp = o.mesh.tp,
                                  .zero = std::max(0, mode - 1),
                                  .micro_batch = static_cast<int64_t>(o.batch / ways)});
    values_[planner::step_sheet().slot("Ψr")] = static_cast<double>(parameters);  // stages are not exactly equal
    planner::step_sheet().evaluate(values_, planner::Part::Layout, planner::Part::Volume);
  }
  double operator[](const char* name) const { return values_[planner::step_sheet().slot(name)]; }

 private:
  std::vector<double> values_;
};

TrainOptions planned(const MeshShape& mesh, DataParallelMode mode = DataParallelMode::Ddp) {
  TrainOptions options = small_gpt();
  options.mesh = mesh;
  options.data_parallel.mode = mode;
  options.data_parallel.weights = DType::BF16;
  return options;
}

/// Two steps on each rank; then `look`.
void run(const TrainOptions& options, const std::function<void(int, Trainer&)>& look) {
  run_world(static_cast<int>(options.mesh.ranks()), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    trainer.step();
    trainer.counters().reset();
    trainer.step();
    look(comm.rank(), trainer);
  });
}

TEST(Planner, KnowsWhatDataParallelismHoldsAndSends) {
  for (const auto mode :
       {DataParallelMode::Ddp, DataParallelMode::Zero1, DataParallelMode::Zero2, DataParallelMode::Zero3}) {
    for (const size_t micro_batches : {1, 2}) {
      TrainOptions options = planned({.dp = 4}, mode);
      options.micro_batches = micro_batches;
      SCOPED_TRACE(describe(options));
      run(options, [&](int, Trainer& trainer) {
        const Plan plan(options, trainer.parameters());
        const double uneven = 16.0 * static_cast<double>(trainer.units().size());
        EXPECT_NEAR(static_cast<double>(trainer.ledger().peak(Kind::Weights)), plan["weights"], uneven);
        EXPECT_NEAR(static_cast<double>(trainer.ledger().peak(Kind::Gradients)), plan["gradients"], uneven);
        EXPECT_NEAR(static_cast<double>(trainer.ledger().peak(Kind::Optimizer)), plan["optimizer"], uneven);
        const Counters& count = trainer.counters();
        EXPECT_NEAR(count[Purpose::Gradients].sent + count[Purpose::Parameters].sent, plan["sent_dp"],
                    0.005 * plan["sent_dp"]);
      });
    }
  }
}

TEST(Planner, KnowsThatZeroBubbleGathersThrice) {
  TrainOptions options = planned({.dp = 2, .pp = 2}, DataParallelMode::Zero3);
  options.micro_batches = 2;
  options.pipeline.schedule = ScheduleKind::ZeroBubble;
  run(options, [&](int, Trainer& trainer) {
    const double sent = trainer.counters()[Purpose::Gradients].sent + trainer.counters()[Purpose::Parameters].sent;
    const double formula = Plan(options, trainer.parameters())["sent_dp"];
    EXPECT_NEAR(sent, formula, 0.005 * formula);
  });
}

/// What rank 0 sends for `purpose` in two layers more.
double of_two_layers(TrainOptions options, Purpose purpose) {
  double sent[2] = {};
  for (const size_t more : {0, 1}) {
    options.model.layers = 4 + 2 * more;
    run(options, [&](int rank, Trainer& trainer) {
      if (rank == 0) sent[more] = trainer.counters()[purpose].sent;
    });
  }
  return sent[1] - sent[0];
}

double planned_of_two_layers(TrainOptions options, const char* row) {
  options.model.layers = 2;
  return kWider * Plan(options, 1)[row];
}

TEST(Planner, KnowsWhatTensorParallelismSends) {
  for (const bool sequence : {false, true}) {
    TrainOptions options = planned({.tp = 4});
    options.sequence_parallel = sequence;
    const double formula = planned_of_two_layers(options, "sent_tp");
    const double more =
        sequence ? of_two_layers(options, Purpose::SequenceAxis) : of_two_layers(options, Purpose::TensorAxis);
    EXPECT_DOUBLE_EQ(more, formula);
  }
}

TEST(Planner, KnowsWhatRingAttentionSends) {
  const TrainOptions options = planned({.cp = 4});
  EXPECT_DOUBLE_EQ(of_two_layers(options, Purpose::ContextAxis), planned_of_two_layers(options, "sent_cp"));
}

TEST(Planner, KnowsWhatAStageSends) {
  TrainOptions options = planned({.pp = 3});
  options.micro_batches = 4;
  run(options, [&](int rank, Trainer& trainer) {
    if (rank != 1) return;  // the first and the last stage have one neighbour
    EXPECT_DOUBLE_EQ(trainer.counters()[Purpose::PipelineAxis].sent, kWider * Plan(options, 1)["sent_pp"]);
  });
}

}  // namespace
}  // namespace tutti::train
