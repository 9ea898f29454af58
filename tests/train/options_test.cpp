// Options: every rank must have the same, and they must fit together; a training step is checked.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

TrainOptions on_two() {
  TrainOptions options = small_gpt();
  options.mesh.dp = 2;
  return options;
}

/// What two ranks say if rank 1 has another value; the same on both.
std::string complaint(const std::function<void(TrainOptions&)>& change) {
  std::array<std::string, 2> texts;
  run_world(2, [&](Communicator& comm) {
    TrainOptions options = on_two();
    if (comm.rank() == 1) change(options);
    try {
      const Trainer trainer(comm, options, sample_text());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Mismatch) << error.what();
      texts[static_cast<size_t>(comm.rank())] = error.what();
    }
  });
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

// Each field of TrainOptions: the text names the first line of describe() that differs.
TEST(Options, MustBeTheSameOnAllRanks) {
  const std::pair<const char*, std::function<void(TrainOptions&)>> fields[] = {
      {"layers 5", [](TrainOptions& o) { o.model.layers = 5; }},
      {"width 64", [](TrainOptions& o) { o.model.width = 64; }},
      {"heads 2", [](TrainOptions& o) { o.model.heads = 2; }},
      {"length 16", [](TrainOptions& o) { o.model.length = 16; }},
      {"vocabulary 300", [](TrainOptions& o) { o.model.vocabulary = 300; }},
      {"dp 1", [](TrainOptions& o) { o.mesh.dp = 1, o.mesh.tp = 2; }},
      {"pp 2", [](TrainOptions& o) { o.mesh.pp = 2; }},
      {"cp 2", [](TrainOptions& o) { o.mesh.cp = 2; }},
      {"ep 2", [](TrainOptions& o) { o.mesh.ep = 2; }},
      {"tp 2", [](TrainOptions& o) { o.mesh.tp = 2; }},
      {"schedule gpipe", [](TrainOptions& o) { o.pipeline.schedule = ScheduleKind::GPipe; }},
      {"chunks 2", [](TrainOptions& o) { o.pipeline.chunks = 2; }},
      {"data-parallel mode 2", [](TrainOptions& o) { o.data_parallel.mode = DataParallelMode::Zero1; }},
      {"weights of type bf16", [](TrainOptions& o) { o.data_parallel.weights = DType::BF16; }},
      {"wire-type bf16", [](TrainOptions& o) { o.data_parallel.communication = DType::BF16; }},
      {"first-bucket 1000", [](TrainOptions& o) { o.data_parallel.first_bucket = 1000; }},
      {"bucket 1000", [](TrainOptions& o) { o.data_parallel.bucket = 1000; }},
      {"reshard after forward false", [](TrainOptions& o) { o.data_parallel.reshard_after_forward = false; }},
      {"sequence parallelism true", [](TrainOptions& o) { o.sequence_parallel = true; }},
      {"cp-mode ulysses", [](TrainOptions& o) { o.context = ContextMode::Ulysses; }},
      {"experts 4", [](TrainOptions& o) { o.moe.experts = 4; }},
      {"top-k 1", [](TrainOptions& o) { o.moe.top_k = 1; }},
      {"capacity 1.5", [](TrainOptions& o) { o.moe.capacity = 1.5; }},
      {"balance 0.5", [](TrainOptions& o) { o.moe.balance = 0.5; }},
      {"checkpoint-activations true", [](TrainOptions& o) { o.checkpoint_activations = true; }},
      {"batch 16", [](TrainOptions& o) { o.batch = 16; }},
      {"micro-batches 2", [](TrainOptions& o) { o.micro_batches = 2; }},
      {"seed 7", [](TrainOptions& o) { o.seed = 7; }},
      {"rate 0.5", [](TrainOptions& o) { o.adam.rate = 0.5f; }},
      {"beta1 0.5", [](TrainOptions& o) { o.adam.beta1 = 0.5f; }},
      {"beta2 0.5", [](TrainOptions& o) { o.adam.beta2 = 0.5f; }},
      {"epsilon 0.5", [](TrainOptions& o) { o.adam.epsilon = 0.5f; }},
      {"decay 0.5", [](TrainOptions& o) { o.adam.decay = 0.5f; }},
      {"scale 0.5", [](TrainOptions& o) { o.adam.scale = 0.5f; }},
      {"first step 3", [](TrainOptions& o) { o.adam.step = 3; }},
      {"warmup 3", [](TrainOptions& o) { o.warmup = 3; }},
      {"clip 3", [](TrainOptions& o) { o.clip = 3; }},
      {"pace 0.25", [](TrainOptions& o) { o.pace = 0.25; }},
      {"reproducible true", [](TrainOptions& o) { o.reproducible = true; }},
      {"compare-every 3", [](TrainOptions& o) { o.compare_every = 3; }}};
  for (const auto& [text, change] : fields) {
    const std::string said = complaint(change);
    EXPECT_TRUE(said.starts_with(std::string("the ranks' options differ: rank 1 has ") + text + " where rank 0 has "))
        << said;
  }
  EXPECT_EQ(complaint([](TrainOptions&) {}), "");
}

TEST(Options, TextsMustBeTheSameOnAllRanks) {
  std::atomic<int> refused = 0;
  run_world(2, [&](Communicator& comm) {
    try {
      const Trainer trainer(comm, on_two(), comm.rank() == 0 ? sample_text() : Corpus(std::string(500, 'a'), "a"));
    } catch (const Error& error) {
      refused += error.code() == Code::Mismatch ? 1 : 0;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(Options, MeshesThatOverflowAreRefused) {
  TrainOptions options = small_gpt();
  options.mesh = {.pp = 65536, .tp = 65536};
  EXPECT_EQ(options.mesh.ranks(), int64_t{1} << 32);
  EXPECT_THROW(check_options(options, 1), Error);
  EXPECT_EQ((MeshShape{1 << 30, 1 << 30, 1 << 30, 1, 1}.ranks()), std::numeric_limits<int64_t>::max());
}

TEST(Replicas, AreComparedBitForBit) {
  for (const auto mode :
       {DataParallelMode::Ddp, DataParallelMode::ParameterServer, DataParallelMode::Zero1, DataParallelMode::Zero2}) {
    SCOPED_TRACE(static_cast<int>(mode));
    std::atomic<int> noticed = 0;
    run_world(4, [&](Communicator& comm) {
      TrainOptions options = small_gpt();
      options.mesh = {.dp = 2, .tp = 2};
      options.data_parallel.mode = mode;
      options.compare_every = 2;
      Trainer trainer(comm, options, sample_text());
      for (int i = 0; i < 4; ++i) trainer.step();
      const Span weights = trainer.weights(2);
      if (comm.rank() == 3) weights.f32()[11] += 1e-3f;  // a bit of memory has changed
      try {
        trainer.compare_replicas();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("after step 4 the weights of rank 3 differ from those of rank 1"),
                  std::string::npos)
            << error.what();
        ++noticed;
      }
    });
    EXPECT_EQ(noticed, 4);
  }
}

TEST(Step, StopsBeforeWeightsThatAreNoNumbers) {
  for (const int ranks : {1, 2}) {
    std::atomic<int> noticed = 0;
    run_world(ranks, [&](Communicator& comm) {
      TrainOptions options = small_gpt();
      options.mesh.dp = ranks;
      Trainer trainer(comm, options, sample_text());
      trainer.step();
      trainer.weights(1).f32()[0] = std::numeric_limits<float>::quiet_NaN();
      try {
        trainer.step();
      } catch (const Error& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("step 2: the loss is nan")) << error.what();
        ++noticed;
      }
      EXPECT_EQ(trainer.steps_done(), 1);
      EXPECT_TRUE(std::isfinite(trainer.weights(2).f32()[0]));
    });
    EXPECT_EQ(noticed, ranks);
  }
}

// Rank 1 fails between its forward and its backward pass. The others wait for it, in whatever communicator.
TEST(Step, AnErrorOfOneRankEndsAll) {
  const auto options_for = [](const MeshShape& mesh, DataParallelMode mode) {
    TrainOptions options = small_gpt();
    options.mesh = mesh;
    options.data_parallel.mode = mode;
    options.micro_batches = 2;
    return options;
  };
  const TrainOptions all[] = {options_for({.dp = 4}, DataParallelMode::Ddp),
                              options_for({.dp = 4}, DataParallelMode::Zero1),
                              options_for({.dp = 4}, DataParallelMode::Zero3),
                              options_for({.dp = 2, .tp = 2}, DataParallelMode::Ddp),
                              options_for({.dp = 2, .pp = 2}, DataParallelMode::Zero2),
                              options_for({.cp = 4}, DataParallelMode::Ddp)};
  for (const TrainOptions& options : all) {
    SCOPED_TRACE(describe(options));
    std::atomic<int> noticed = 0;
    const auto body = [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      if (comm.rank() == 1) {
        trainer.executor().observer = [&](const Action&, double, double) {
          if (trainer.steps_done() > 0) throw std::runtime_error("rank 1 fails");
        };
      }
      try {
        trainer.step();
        trainer.step();
      } catch (...) {
        ++noticed;
        throw;
      }
    };
    EXPECT_ANY_THROW(run_world(4, body));
    EXPECT_EQ(noticed, 4);
  }
}

}  // namespace
}  // namespace tutti::train
