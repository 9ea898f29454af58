// The hand-written backward pass against finite differences, parameter by parameter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tutti/train/gpt.hpp"

namespace tutti::train {
namespace {

/// A small model on one rank whose loss and gradients can be asked for.
class Probe {
 public:
  explicit Probe(const GptConfig& config) : config_(config), units_(make_gpt(config)) {
    std::mt19937 random(7);
    const size_t tokens = kSequences * config.length;
    for (std::vector<int32_t>* ids : {&tokens_, &targets_}) {
      for (size_t i = 0; i < tokens; ++i) ids->push_back(static_cast<int32_t>(random() % config.vocabulary));
    }
    for (size_t i = 0; i < tokens; ++i) positions_.push_back(static_cast<int32_t>(i % config.length));
    std::normal_distribution<float> small(0, 0.3f);
    for (const auto& unit : units_) {
      weights.push_back(initial_values(unit->layout(), 3));
      for (float& value : weights.back()) value += small(random);  // so that no gradient is close to zero
      gradients.emplace_back(weights.back().size());
    }
    batch_ = {kSequences, config.length, tokens_.data(), positions_.data(), targets_.data(), &loss_};
  }

  double loss() {
    std::vector<std::unique_ptr<Record>> records;
    forward(records);
    return loss_;
  }
  /// All of backward_input before all of backward_weight, as zero-bubble schedules may have it.
  void backward() {
    std::vector<std::unique_ptr<Record>> records;
    forward(records);
    Tensor dy;
    for (size_t i = units_.size(); i-- > 0;) dy = units_[i]->backward_input(call(i), *records[i], dy);
    for (size_t i = 0; i < units_.size(); ++i) units_[i]->backward_weight(call(i), *records[i], gradients[i].data());
  }
  const Model& units() const { return units_; }
  Ledger& ledger() { return ledger_; }

  std::vector<std::vector<float>> weights, gradients;  // [unit]

 private:
  static constexpr size_t kSequences = 3;
  Call call(size_t unit) { return {ledger_, batch_, weights[unit].data()}; }
  void forward(std::vector<std::unique_ptr<Record>>& records) {
    Tensor x;
    for (size_t i = 0; i < units_.size(); ++i) x = units_[i]->forward(call(i), x, records.emplace_back());
  }

  GptConfig config_;
  std::unique_ptr<Device> device_ = make_host_device();
  Ledger ledger_{*device_};
  Model units_;
  std::vector<int32_t> tokens_, targets_, positions_;
  MicroBatch batch_;
  double loss_ = 0;
};

const GptConfig kSmall{.layers = 2, .width = 16, .heads = 2, .length = 9, .vocabulary = 24};

/// (loss(w + εd) − loss(w − εd)) / 2ε for a parameter and a direction of length 1.
double difference(Probe& probe, std::vector<float>& weights, size_t first, const std::vector<double>& direction) {
  constexpr double kStep = 4e-3;
  const std::vector<float> before = weights;
  const auto at = [&](double step) {
    for (size_t i = 0; i < direction.size(); ++i) {
      weights[first + i] = static_cast<float>(double{before[first + i]} + step * direction[i]);
    }
    return probe.loss();
  };
  const double up = at(kStep), down = at(-kStep);
  weights = before;
  return (up - down) / (2 * kStep);
}

void normalize(std::vector<double>& direction) {
  double length = 0;
  for (const double d : direction) length += d * d;
  for (double& d : direction) d /= std::sqrt(length);
}

TEST(Gradients, AgreeWithFiniteDifferencesForEveryParameter) {
  Probe probe(kSmall);
  probe.backward();
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (size_t unit = 0; unit < probe.units().size(); ++unit) {
    for (const Parameter& p : probe.units()[unit]->layout().parameters()) {
      const float* const gradient = probe.gradients[unit].data() + p.offset;
      // Along the gradient, where the slope is its length, and along two random directions.
      for (int trial = 0; trial < 3; ++trial) {
        std::vector<double> direction(p.count);
        for (size_t i = 0; i < p.count; ++i) direction[i] = trial == 0 ? double{gradient[i]} : normal(random);
        normalize(direction);
        double slope = 0, length = 0;
        for (size_t i = 0; i < p.count; ++i) {
          slope += direction[i] * double{gradient[i]};
          length += double{gradient[i]} * double{gradient[i]};
        }
        EXPECT_NEAR(difference(probe, probe.weights[unit], p.offset, direction), slope, 2e-3 * std::sqrt(length) + 5e-5)
            << p.name << ", direction " << trial;
      }
    }
  }
}

TEST(Gradients, AddUp) {
  Probe probe(kSmall);
  probe.backward();
  const auto once = probe.gradients;
  probe.backward();
  for (size_t unit = 0; unit < once.size(); ++unit) {
    for (size_t i = 0; i < once[unit].size(); ++i) {
      ASSERT_NEAR(probe.gradients[unit][i], 2 * once[unit][i], 1e-5f + 1e-4f * std::abs(once[unit][i]));
    }
  }
}

TEST(Gradients, LeaveNoActivationBehind) {
  Probe probe(kSmall);
  probe.backward();
  EXPECT_EQ(probe.ledger().held(Kind::Activations), 0u);
  EXPECT_GT(probe.ledger().peak(Kind::Activations), 0u);
}

// A tensor-parallel rank cuts its piece from the tensor that a single rank has.
TEST(InitialValues, DoNotDependOnTheSharding) {
  Layout whole, piece;
  whole.add("w", {4, 6}, Initial::normal(1));
  piece.add("other", {5}, Initial::one());
  piece.add_piece({.name = "w", .shape = {2, 3}, .full = {4, 6}, .start = {1, 3}, .initial = Initial::normal(1)});
  const std::vector<float> all = initial_values(whole, 9), part = initial_values(piece, 9);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      EXPECT_EQ(part[5 + row * 3 + column], all[(row + 1) * 6 + column + 3]);
    }
  }
  EXPECT_NE(initial_values(whole, 10), all);
}

}  // namespace
}  // namespace tutti::train
