#include "train/device/host_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tutti::train {
namespace {

/// e^x to 2 units in the last place, without branches, so that compilers vectorise loops of it: 2^n · e^r with
/// x = n·ln 2 + r, and Cephes' polynomial for e^r.
inline float exponential(float x) {
  constexpr float kRound = 12582912;  // 1.5 · 2^23: adding it rounds to an integer
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power = 0;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

inline float hyperbolic_tangent(float x) { return 1 - 2 / (exponential(2 * x) + 1); }

constexpr float kRoot = 0.7978845608f, kCube = 0.044715f;  // of GELU: √(2/π)

}  // namespace

void HostKernels::layer_norm(Extent extent, const float* x, const float* gain, const float* bias, float* y, float* mean,
                             float* rstd) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, x += n, y += n) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) sum += double{x[i]};
    const double middle = sum / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) squares += (double{x[i]} - middle) * (double{x[i]} - middle);
    const auto m = static_cast<float>(middle);
    const auto r = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + 1e-5));
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r * gain[i] + bias[i];
    mean[row] = m;
    rstd[row] = r;
  }
}

void HostKernels::layer_norm_backward_input(Extent extent, const float* dy, const float* x, const float* gain,
                                            const float* mean, const float* rstd, float* dx) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, x += n, dy += n, dx += n) {
    const float m = mean[row], r = rstd[row];
    double sum = 0, along = 0;  // Σ d, and Σ d·x̂, with d the gradient by the normed x̂
    for (size_t i = 0; i < n; ++i) {
      const float d = dy[i] * gain[i];
      sum += double{d};
      along += double{d} * double{(x[i] - m) * r};
    }
    const auto middle = static_cast<float>(sum / static_cast<double>(n));
    const auto slope = static_cast<float>(along / static_cast<double>(n));
    for (size_t i = 0; i < n; ++i) dx[i] += r * (dy[i] * gain[i] - middle - (x[i] - m) * r * slope);
  }
}

void HostKernels::layer_norm_backward_weight(Extent extent, const float* dy, const float* x, const float* mean,
                                             const float* rstd, float* d_gain, float* d_bias) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, x += n, dy += n) {
    for (size_t i = 0; i < n; ++i) {
      d_gain[i] += dy[i] * (x[i] - mean[row]) * rstd[row];
      d_bias[i] += dy[i];
    }
  }
}

void HostKernels::gelu(size_t count, const float* x, float* y) {
  for (size_t i = 0; i < count; ++i) {
    const float v = x[i];
    y[i] = 0.5f * v * (1 + hyperbolic_tangent(kRoot * (v + kCube * v * v * v)));
  }
}

void HostKernels::gelu_backward(size_t count, const float* x, const float* dy, float* dx) {
  for (size_t i = 0; i < count; ++i) {
    const float v = x[i], t = hyperbolic_tangent(kRoot * (v + kCube * v * v * v));
    const float slope = 0.5f * (1 + t) + 0.5f * v * (1 - t * t) * kRoot * (1 + 3 * kCube * v * v);
    dx[i] = dy[i] * slope;
  }
}

void HostKernels::add_bias(Extent extent, float* y, const float* bias) {
  for (size_t row = 0; row < extent.rows; ++row, y += extent.columns) {
    for (size_t i = 0; i < extent.columns; ++i) y[i] += bias[i];
  }
}

void HostKernels::add_rows(Extent extent, const float* dy, float* sums) {
  for (size_t row = 0; row < extent.rows; ++row, dy += extent.columns) {
    for (size_t i = 0; i < extent.columns; ++i) sums[i] += dy[i];
  }
}

void HostKernels::causal_softmax(size_t rows, float factor, float* scores) {
  for (size_t row = 0; row < rows; ++row, scores += rows) {
    const size_t n = row + 1;
    float most = scores[0], sum = 0;
    for (size_t i = 1; i < n; ++i) most = std::max(most, scores[i]);
    for (size_t i = 0; i < n; ++i) scores[i] = exponential((scores[i] - most) * factor);
    for (size_t i = 0; i < n; ++i) sum += scores[i];
    for (size_t i = 0; i < n; ++i) scores[i] /= sum;
    std::fill(scores + n, scores + rows, 0.0f);
  }
}

void HostKernels::softmax_backward(Extent extent, float factor, const float* p, float* d_scores) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, p += n, d_scores += n) {
    float along = 0;
    for (size_t i = 0; i < n; ++i) along += p[i] * d_scores[i];
    for (size_t i = 0; i < n; ++i) d_scores[i] = factor * p[i] * (d_scores[i] - along);
  }
}

void HostKernels::embed(Extent extent, const int32_t* index, const float* table, float* y, bool accumulate) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, y += n) {
    const float* const from = table + static_cast<size_t>(index[row]) * n;
    for (size_t i = 0; i < n; ++i) y[i] = accumulate ? y[i] + from[i] : from[i];
  }
}

void HostKernels::embed_backward(Extent extent, const int32_t* index, const float* dy, float* d_table) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, dy += n) {
    float* const to = d_table + static_cast<size_t>(index[row]) * n;
    for (size_t i = 0; i < n; ++i) to[i] += dy[i];
  }
}

double HostKernels::cross_entropy(Extent extent, const int32_t* target, float factor, float* logits) {
  const size_t n = extent.columns;
  double losses = 0;
  for (size_t row = 0; row < extent.rows; ++row, logits += n) {
    const auto wanted = static_cast<size_t>(target[row]);
    const float most = *std::max_element(logits, logits + n), scored = logits[wanted] - most;
    double sum = 0;
    for (size_t i = 0; i < n; ++i) logits[i] = exponential(logits[i] - most);
    for (size_t i = 0; i < n; ++i) sum += double{logits[i]};
    losses += std::log(sum) - double{scored};
    const auto each = static_cast<float>(double{factor} / sum);
    for (size_t i = 0; i < n; ++i) logits[i] *= each;
    logits[wanted] -= factor;
  }
  return losses;
}

}  // namespace tutti::train
