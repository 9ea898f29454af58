// Expert parallelism: the same model, the same gradients as differences, the stated traffic and statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

TrainOptions mixture(int ep, int dp = 1, int tp = 1, int cp = 1) {
  TrainOptions options = small_gpt();
  options.moe = {.experts = 4, .top_k = 2, .balance = 0.1};
  options.mesh = {.dp = dp, .cp = cp, .ep = ep, .tp = tp};
  return options;
}

const Curve& one_process() {
  static const Curve kCurve = curve_of(mixture(1));
  return kCurve;
}

TEST(ExpertParallel, IsOneProcess) {
  EXPECT_LT(one_process().losses.back(), 0.75 * one_process().losses.front());
  for (const int ep : {2, 4}) expect_same_curve(curve_of(mixture(ep)), one_process());
}

TEST(ExpertParallel, WithOtherKindsIsOneProcess) {
  expect_same_curve(curve_of(mixture(2, 2)), one_process());
  expect_same_curve(curve_of(mixture(2, 1, 2)), one_process());
  expect_same_curve(curve_of(mixture(2, 1, 1, 2)), one_process());
  TrainOptions options = mixture(2, 1, 2);
  options.sequence_parallel = true;
  expect_same_curve(curve_of(options), one_process());
  options = mixture(2, 1, 2, 2);  // all of them: 8 ranks
  options.sequence_parallel = true;
  expect_same_curve(curve_of(options), one_process());
}

TEST(ExpertParallel, OneExpertATokenIsOneProcess) {
  TrainOptions one = mixture(1), two = mixture(2);
  one.moe.top_k = two.moe.top_k = 1;
  expect_same_curve(curve_of(two), curve_of(one));
}

/// Rows travel to the ranks of their experts and back to their places.
TEST(ExpertDispatch, RowsReachTheirExpertsAndReturn) {
  constexpr size_t kExperts = 6, kWidth = 3;
  run_world(3, [&](Communicator& comm) {
    Counters counters;
    Collectives ep(comm.split(0, comm.rank()), counters);
    const auto device = make_host_device();
    Ledger ledger(*device);
    const MicroBatch batch;
    const Call call{ledger, batch, nullptr};
    // Rank r sends rows to experts r, r+1, …; none go to expert 5, and every third row is dropped.
    std::vector<int32_t> expert;
    for (int i = 0; i < 7 + comm.rank(); ++i) expert.push_back(i % 3 == 2 ? -1 : (comm.rank() + i) % 5);
    const ExpertDispatch dispatch(ep, kExperts, expert);
    Tensor rows = call.make(dispatch.sent() * kWidth);
    for (size_t i = 0; i < dispatch.sent(); ++i) {
      const int32_t row = dispatch.order()[i];
      for (size_t j = 0; j < kWidth; ++j)
        rows->f32()[i * kWidth + j] = static_cast<float>(expert[static_cast<size_t>(row)] * 100 + comm.rank());
    }
    const Tensor arrived = dispatch.dispatch(call, rows, kWidth);
    ASSERT_EQ(dispatch.experts().size(), 2u);
    for (size_t e = 0; e < 2; ++e) {
      const Entries at = dispatch.experts()[e];
      const size_t global = static_cast<size_t>(comm.rank()) * 2 + e;
      for (size_t i = at.first; i < at.first + at.count; ++i)
        EXPECT_EQ(static_cast<size_t>(arrived->f32()[i * kWidth]) / 100, global);
    }
    const double all = ep.sum(Purpose::Norm, static_cast<double>(dispatch.received()));
    EXPECT_EQ(all, ep.sum(Purpose::Norm, static_cast<double>(dispatch.sent())));
    const Tensor home = dispatch.combine(call, arrived, kWidth);
    for (size_t i = 0; i < home->count(); ++i) EXPECT_EQ(home->f32()[i], rows->f32()[i]);
  });
}

/// All rows go to one expert, and one rank has none to send.
TEST(ExpertDispatch, RanksMaySendAndReceiveNothing) {
  run_world(3, [&](Communicator& comm) {
    Counters counters;
    Collectives ep(comm.split(0, comm.rank()), counters);
    const auto device = make_host_device();
    Ledger ledger(*device);
    const MicroBatch batch;
    const Call call{ledger, batch, nullptr};
    const std::vector<int32_t> expert(comm.rank() == 2 ? 0 : 5, 1);
    const ExpertDispatch dispatch(ep, 3, expert);
    EXPECT_EQ(dispatch.received(), comm.rank() == 1 ? 10u : 0u);
    const Tensor rows = call.make(dispatch.sent() * 2);
    for (size_t i = 0; i < rows->count(); ++i) rows->f32()[i] = static_cast<float>(i);
    const Tensor home = dispatch.combine(call, dispatch.dispatch(call, rows, 2), 2);
    ASSERT_EQ(home->count(), rows->count());
    for (size_t i = 0; i < home->count(); ++i) EXPECT_EQ(home->f32()[i], rows->f32()[i]);
  });
}

TEST(ExpertDispatch, NamesAnExpertThatIsNotThere) {
  Collectives alone;
  const std::vector<int32_t> expert{0, 4};
  try {
    const ExpertDispatch dispatch(alone, 4, expert);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "row 1 goes to expert 4 of 4: experts are 0 to 3, and -1 drops a row");
  }
}

/// One layer alone, whose value Σ w · y + balance loss can be asked for.
class Probe {
 public:
  explicit Probe(const MoeConfig& config)
      : config_(config), layer_(make_moe(layout_, "moe", kWidth, 8, {0.5f, 0.5f}, config, {}, alone_, load_)) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    weights = initial_values(layout_, 3);
    for (std::vector<float>* values : {&x, &w}) {
      for (size_t i = 0; i < kTokens * kWidth; ++i) values->push_back(normal(random));
    }
    gradients.resize(weights.size());
  }
  double value() {
    std::unique_ptr<Record> record;
    load_.reset();
    const Tensor y = layer_->forward(call(), uploaded(x), record);
    double sum = config_.balance * load_.balance;
    for (size_t i = 0; i < w.size(); ++i) sum += double{w[i]} * double{y->f32()[i]};
    return sum;
  }
  /// Tokens to which no expert adds anything.
  size_t untouched() {
    std::unique_ptr<Record> record;
    load_.reset();
    const Tensor y = layer_->forward(call(), uploaded(x), record);
    size_t count = 0;
    for (size_t row = 0; row < kTokens; ++row) {
      const float* const at = y->f32() + row * kWidth;
      if (std::all_of(at, at + kWidth, [](float value) { return value == 0; })) ++count;
    }
    return count;
  }
  /// dx; gradients are added to.
  std::vector<float> backward() {
    std::unique_ptr<Record> record;
    layer_->forward(call(), uploaded(x), record);
    const Tensor dx = layer_->backward_input(call(), *record, uploaded(w));
    layer_->backward_weight(call(), *record, gradients.data());
    return {dx->f32(), dx->f32() + dx->count()};
  }
  const ExpertLoad& load() const { return load_; }

  static constexpr size_t kTokens = 20, kWidth = 6;
  std::vector<float> x, w, weights, gradients;

 private:
  Call call() { return {ledger_, batch_, weights.data()}; }
  Tensor uploaded(const std::vector<float>& values) {
    Tensor made = call().make(values.size());
    device_->upload(made->f32(), values.data(), made->bytes());
    return made;
  }
  MoeConfig config_;
  Layout layout_;
  Collectives alone_;
  ExpertLoad load_;
  std::unique_ptr<Device> device_ = make_host_device();
  Ledger ledger_{*device_};
  MicroBatch batch_;
  std::unique_ptr<Layer> layer_;
};

/// Compares slopes by `values`, one after another, with differences.
void expect_slopes(Probe& probe, std::vector<float>& values, const std::vector<float>& slopes) {
  size_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float before = values[i], step = 2e-3f;
    values[i] = before + step;
    const double up = probe.value();
    values[i] = before - step;
    const double down = probe.value();
    values[i] = before;
    const double slope = (up - down) / (2 * double{step});
    if (std::abs(slope - double{slopes[i]}) > 5e-3 * std::max(1.0, std::abs(slope))) ++wrong;
  }
  EXPECT_LE(wrong, values.size() / 50);  // a step may change a token's experts, where there is no slope
}

TEST(Moe, GradientsAreDifferences) {
  for (const double capacity : {0.0, 1.0}) {
    for (const size_t k : {1, 2}) {
      Probe probe({.experts = 4, .top_k = k, .capacity = capacity, .balance = 3});
      const std::vector<float> dx = probe.backward();
      expect_slopes(probe, probe.x, dx);
      expect_slopes(probe, probe.weights, probe.gradients);
    }
  }
}

TEST(Moe, CapacityDropsWhatIsBeyond) {
  Probe dropless({.experts = 4, .top_k = 2}), tight({.experts = 4, .top_k = 2, .capacity = 0.5});
  dropless.value();
  tight.value();
  EXPECT_EQ(dropless.load().dropped, 0);
  EXPECT_EQ(dropless.load().pairs(), 2 * Probe::kTokens);
  double beyond = 0;
  for (const double chosen : tight.load().chosen) beyond += std::max(0.0, chosen - 5);  // 0.5 · 20 · 2 / 4
  EXPECT_EQ(tight.load().dropped, beyond);
  EXPECT_GT(beyond, 0);
}

TEST(Moe, DroppedTokensPassUnchanged) {
  Probe tight({.experts = 4, .top_k = 1, .capacity = 0.5});
  const size_t untouched = tight.untouched();
  EXPECT_GT(untouched, 0u);
  EXPECT_EQ(static_cast<double>(untouched), tight.load().dropped);
}

TEST(Moe, BalanceLossIsOneWhereEvenAndSpreadsTokens) {
  const auto load_after = [](double weight) {
    TrainOptions options = mixture(2);
    options.moe.balance = weight;
    double imbalance = 0, balance = 0;
    curve_of(options, [&](Trainer& trainer) {
      if (trainer.mesh().world().rank() != 0) return;
      for (const ExpertLoad& load : trainer.expert_loads()) {
        EXPECT_EQ(load.pairs(), 2.0 * 8 * 32);  // of all ranks
        imbalance = std::max(imbalance, load.imbalance());
        balance += load.balance / static_cast<double>(trainer.expert_loads().size());
      }
    });
    return std::pair(imbalance, balance);
  };
  const auto [free_imbalance, free_loss] = load_after(0);
  const auto [imbalance, loss] = load_after(1);
  EXPECT_LT(imbalance, free_imbalance);
  EXPECT_LT(loss, free_loss);
  EXPECT_NEAR(loss, 1, 0.1);
}

TEST(ExpertParallel, SendsRowsOfOtherRanksExperts) {
  const TrainOptions options = mixture(2);
  run_world(2, [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    trainer.counters().reset();
    trainer.step();
    const Count count = trainer.counters()[Purpose::ExpertAxis];
    const size_t layers = options.model.layers, pairs = 2 * options.batch / 2 * options.model.length;
    // A layer: rows there and back, forward and backward; their counts; the load.
    EXPECT_EQ(count.calls, layers * (4 + 1 + 1));
    const double rows = 4.0 * static_cast<double>(options.model.width * pairs);
    const double sent = trainer.mesh().ep().sum(Purpose::Loss, count.sent);  // what one sends, the other receives back
    EXPECT_GT(sent, 0);
    EXPECT_LT(sent, 2.0 * static_cast<double>(layers) * 4 * rows);
    EXPECT_DOUBLE_EQ(sent, trainer.mesh().ep().sum(Purpose::Loss, count.received));
  });
}

// The experts' rows change from step to step, and so do the sizes of what is allocated.
TEST(ExpertParallel, MemoryDoesNotGrow) {
  const TrainOptions options = mixture(2);
  run_world(2, [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    for (int i = 0; i < 200; ++i) trainer.step();
    EXPECT_LE(static_cast<double>(trainer.ledger().reserved()), 1.3 * static_cast<double>(trainer.ledger().peak()));
    EXPECT_GE(trainer.ledger().reserved(), trainer.ledger().held());
  });
}

TEST(ExpertParallel, StatisticsCountEachPassOnce) {
  TrainOptions options = mixture(1);
  options.mesh = {};
  for (const bool checkpoint : {false, true}) {
    options.checkpoint_activations = checkpoint;
    curve_of(options, [&](Trainer& trainer) {
      const std::vector<ExpertLoad> loads = trainer.expert_loads();
      ASSERT_EQ(loads.size(), options.model.layers);
      for (const ExpertLoad& load : loads) {
        EXPECT_EQ(load.calls, 1u);
        EXPECT_EQ(load.pairs(), static_cast<double>(options.moe.top_k * options.batch * options.model.length));
      }
    });
  }
}

TEST(ExpertParallel, StatisticsAreOfAllStages) {
  TrainOptions options = mixture(1);
  options.mesh = {.pp = 2};
  options.micro_batches = 2;
  curve_of(options, [&](Trainer& trainer) {  // on both ranks
    const std::vector<ExpertLoad> loads = trainer.expert_loads();
    ASSERT_EQ(loads.size(), options.model.layers);
    for (size_t i = 0; i < loads.size(); ++i) {
      EXPECT_EQ(loads[i].name, "block." + std::to_string(i) + ".mlp");
      EXPECT_EQ(loads[i].pairs(), static_cast<double>(options.moe.top_k * options.batch * options.model.length));
    }
  });
}

// By design: each rank gives each expert so many of its own tokens' places, so what is dropped depends on the ranks
// where a capacity is set.
TEST(ExpertParallel, CapacityIsOfEachRank) {
  const auto dropped = [](const MeshShape& mesh) {
    TrainOptions options = mixture(1);
    options.mesh = mesh;
    options.moe.capacity = 1;
    double pairs = 0;
    run_world(static_cast<int>(mesh.ranks()), [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      trainer.step();
      for (const ExpertLoad& load : trainer.expert_loads()) {
        if (comm.rank() == 0) pairs += load.dropped;
      }
    });
    return pairs;
  };
  const double alone = dropped({}), spread = dropped({.ep = 2});
  EXPECT_GT(alone, 0);
  EXPECT_NE(alone, spread);
}

TEST(ExpertParallel, ErrorsSayWhatDivides) {
  TrainOptions options = mixture(2);
  options.moe.experts = 3;
  EXPECT_NE(refusal(options).find("ep (2) does not divide the number of experts (3); what does: 1, 3"),
            std::string::npos);
  options.moe.experts = 0;
  EXPECT_NE(refusal(options).find("the model has no experts"), std::string::npos);
  options.moe = {.experts = 2, .top_k = 3};
  EXPECT_NE(refusal(options).find("a token goes to 3 of 2 experts"), std::string::npos);
}

}  // namespace
}  // namespace tutti::train
