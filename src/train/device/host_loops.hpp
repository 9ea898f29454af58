// The host's loops over elements in which a step spends the most time beside the matrix products, each for the
// processor that it runs on.
#pragma once

#include "tutti/train/device.hpp"

namespace tutti::train {

/// x ← e^(factor · (x − from)).
void exponentials(size_t count, float from, float factor, float* x);
/// As Device::gelu and Device::gelu_backward.
void gelu_loop(size_t count, const float* x, float* y);
void gelu_backward_loop(size_t count, const float* x, const float* dy, float* dx);
/// One step of Adam on f32 master weights.
void adam_loop(const AdamStep& step, size_t count, const float* gradients, float* master, float* moment1,
               float* moment2);

}  // namespace tutti::train
