#include <gtest/gtest.h>

#include <cmath>

#include "tutti/train/adam.hpp"

namespace tutti::train {
namespace {

class HostDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_host_device();
  Ledger ledger_{*device_};
};

TEST_F(HostDeviceTest, LedgerKnowsWhatIsHeldAndThePeak) {
  {
    const Buffer weights = ledger_.allocate(Kind::Weights, 100, DType::BF16);
    const Buffer moments = ledger_.allocate(Kind::Optimizer, 10);
    EXPECT_EQ(ledger_.held(Kind::Weights), 200u);
    EXPECT_EQ(ledger_.held(), 240u);
  }
  EXPECT_EQ(ledger_.held(), 0u);
  EXPECT_EQ(ledger_.peak(Kind::Optimizer), 40u);
  EXPECT_EQ(ledger_.peak(), 240u);
  ledger_.reset_peaks();
  EXPECT_EQ(ledger_.peak(), 0u);
}

TEST_F(HostDeviceTest, RoundsToNearestEven) {
  const std::vector<float> values{1.0f, 1.00390625f, 1.01171875f, -3.14159274f, INFINITY};
  const std::vector<float> rounded{1.0f, 1.0f, 1.015625f, -3.140625f, INFINITY};
  const Buffer narrow = ledger_.allocate(Kind::Buffers, values.size(), DType::BF16);
  std::vector<float> back(values.size());
  device_->convert(narrow.span(), {const_cast<float*>(values.data()), values.size(), DType::F32});
  device_->convert({back.data(), back.size(), DType::F32}, narrow.span());
  EXPECT_EQ(back, rounded);
}

TEST_F(HostDeviceTest, RefusesOtherTypes) {
  const Buffer half = ledger_.allocate(Kind::Buffers, 4, DType::F16);
  EXPECT_THROW(device_->scale(half.span(), 2), Error);
}

// The first step of Adam moves each weight by the rate, whatever the gradient's size.
TEST_F(HostDeviceTest, AdamsFirstStepIsTheRate) {
  for (const DType type : {DType::F32, DType::BF16}) {
    const Buffer weights = ledger_.allocate(Kind::Weights, 3, type),
                 gradients = ledger_.allocate(Kind::Gradients, 3, type);
    Adam adam(ledger_, weights.span());
    const std::vector<float> start{1, -2, 0.5f}, slopes{4, -0.25f, 64};
    adam.load(*device_, 0, start, weights.span());
    device_->convert(gradients.span(), {const_cast<float*>(slopes.data()), 3, DType::F32});
    adam.step(*device_, {.rate = 0.01f, .epsilon = 0}, weights.span(), gradients.span());
    std::vector<float> now(3);
    adam.read(*device_, 0, now, weights.span());
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(now[i], start[i] - std::copysign(0.01f, slopes[i]), 1e-5f);
    EXPECT_EQ(ledger_.held(Kind::Optimizer), type == DType::F32 ? 3 * 8u : 3 * 12u);
  }
}

TEST_F(HostDeviceTest, SoftmaxAndCrossEntropyAreRight) {
  std::vector<float> scores{1, 9, 9, 1, 2, 9, 1, 1, 1};
  device_->causal_softmax(3, 1, scores.data());
  EXPECT_FLOAT_EQ(scores[0], 1);
  EXPECT_EQ(scores[1], 0);
  EXPECT_NEAR(scores[4], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(scores[8], 1.0 / 3, 1e-6);

  std::vector<float> logits{0, std::log(3.0f)};
  const int32_t target = 1;
  EXPECT_NEAR(device_->cross_entropy({1, 2}, &target, 1, logits.data()), -std::log(0.75), 1e-6);
  EXPECT_NEAR(logits[0], 0.25, 1e-6);
  EXPECT_NEAR(logits[1], -0.25, 1e-6);
}

}  // namespace
}  // namespace tutti::train
