#include "train/device/host_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "train/device/host_loops.hpp"

namespace tutti::train {

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

void HostKernels::gelu(size_t count, const float* x, float* y) { gelu_loop(count, x, y); }

void HostKernels::gelu_backward(size_t count, const float* x, const float* dy, float* dx) {
  gelu_backward_loop(count, x, dy, dx);
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

void HostKernels::embed(Extent extent, const int32_t* index, Entries here, const float* table, float* y,
                        bool accumulate) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, y += n) {
    if (!here.have(index[row])) {
      if (!accumulate) std::fill(y, y + n, 0.0f);
      continue;
    }
    const float* const from = table + (static_cast<size_t>(index[row]) - here.first) * n;
    for (size_t i = 0; i < n; ++i) y[i] = accumulate ? y[i] + from[i] : from[i];
  }
}

void HostKernels::embed_backward(Extent extent, const int32_t* index, Entries here, const float* dy, float* d_table) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, dy += n) {
    if (!here.have(index[row])) continue;
    float* const to = d_table + (static_cast<size_t>(index[row]) - here.first) * n;
    for (size_t i = 0; i < n; ++i) to[i] += dy[i];
  }
}

void HostKernels::row_max(Extent extent, const float* x, float* most) {
  for (size_t row = 0; row < extent.rows; ++row, x += extent.columns)
    most[row] = *std::max_element(x, x + extent.columns);
}

void HostKernels::cross_entropy_sums(Extent extent, const int32_t* target, Entries here, const float* most,
                                     float* logits, float* sums, float* scored) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, logits += n) {
    const auto wanted = static_cast<size_t>(target[row]) - here.first;
    scored[row] = here.have(target[row]) ? logits[wanted] - most[row] : 0;
    double sum = 0;
    exponentials(n, most[row], 1, logits);
    for (size_t i = 0; i < n; ++i) sum += double{logits[i]};
    sums[row] = static_cast<float>(sum);
  }
}

double HostKernels::cross_entropy_gradient(Extent extent, const int32_t* target, Entries here, const float* sums,
                                           const float* scored, float factor, float* logits) {
  const size_t n = extent.columns;
  double losses = 0;
  for (size_t row = 0; row < extent.rows; ++row, logits += n) {
    losses += std::log(double{sums[row]}) - double{scored[row]};
    const float each = factor / sums[row];
    for (size_t i = 0; i < n; ++i) logits[i] *= each;
    if (here.have(target[row])) logits[static_cast<size_t>(target[row]) - here.first] -= factor;
  }
  return losses;
}

}  // namespace tutti::train
