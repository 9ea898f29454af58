// The host's kernels of rows: softmax, attention by blocks, and routing.
#include <algorithm>
#include <cmath>

#include "train/device/host_exp.hpp"
#include "train/device/host_kernels.hpp"
#include "train/device/host_loops.hpp"

namespace tutti::train {

void HostKernels::scale_rows(Extent extent, const float* factors, const float* x, float* y) {
  for (size_t row = 0; row < extent.rows; ++row, x += extent.columns, y += extent.columns) {
    for (size_t i = 0; i < extent.columns; ++i) y[i] = factors[row] * x[i];
  }
}

void HostKernels::row_dots(Extent extent, const float* a, const float* b, float* dots) {
  for (size_t row = 0; row < extent.rows; ++row, a += extent.columns, b += extent.columns) {
    float sum = 0;
    for (size_t i = 0; i < extent.columns; ++i) sum += a[i] * b[i];
    dots[row] = sum;
  }
}

void HostKernels::copy_rows(Extent extent, Matrix from, Matrix to) {
  for (size_t row = 0; row < extent.rows; ++row) {
    std::copy_n(from.data + row * from.ld, extent.columns, to.data + row * to.ld);
  }
}

void HostKernels::softmax(Extent extent, float factor, bool causal, float* scores, float* log_sum) {
  for (size_t row = 0; row < extent.rows; ++row, scores += extent.columns) {
    const size_t n = causal ? row + 1 : extent.columns;
    float most = scores[0], sum = 0;
    for (size_t i = 1; i < n; ++i) most = std::max(most, scores[i]);
    exponentials(n, most, factor, scores);
    for (size_t i = 0; i < n; ++i) sum += scores[i];
    for (size_t i = 0; i < n; ++i) scores[i] /= sum;
    std::fill(scores + n, scores + extent.columns, 0.0f);
    if (log_sum != nullptr) log_sum[row] = factor * most + std::log(sum);
  }
}

void HostKernels::softmax_again(Extent extent, float factor, bool causal, const float* log_sum, float* scores) {
  for (size_t row = 0; row < extent.rows; ++row, scores += extent.columns) {
    const size_t n = causal ? row + 1 : extent.columns;
    for (size_t i = 0; i < n; ++i) scores[i] = exponential(factor * scores[i] - log_sum[row]);
    std::fill(scores + n, scores + extent.columns, 0.0f);
  }
}

void HostKernels::softmax_backward(Extent extent, float factor, const float* p, const float* along, float* d_scores) {
  const size_t n = extent.columns;
  for (size_t row = 0; row < extent.rows; ++row, p += n, d_scores += n) {
    float sum = 0;
    if (along == nullptr) {
      for (size_t i = 0; i < n; ++i) sum += p[i] * d_scores[i];
    } else {
      sum = along[row];
    }
    for (size_t i = 0; i < n; ++i) d_scores[i] = factor * p[i] * (d_scores[i] - sum);
  }
}

void HostKernels::merge_attention(Extent extent, const float* block, const float* block_log_sum, Matrix out,
                                  float* log_sum) {
  for (size_t row = 0; row < extent.rows; ++row, block += extent.columns) {
    const float most = std::max(log_sum[row], block_log_sum[row]);
    const float old = std::exp(log_sum[row] - most), fresh = std::exp(block_log_sum[row] - most);
    const float keep = old / (old + fresh), take = fresh / (old + fresh);
    float* const to = out.data + row * out.ld;
    for (size_t i = 0; i < extent.columns; ++i) to[i] = keep * to[i] + take * block[i];
    log_sum[row] = most + std::log(old + fresh);
  }
}

void HostKernels::top_k(Extent extent, size_t k, const float* x, int32_t* index) {
  for (size_t row = 0; row < extent.rows; ++row, x += extent.columns, index += k) {
    for (size_t found = 0; found < k; ++found) {
      int32_t best = -1;
      for (size_t i = 0; i < extent.columns; ++i) {
        const auto candidate = static_cast<int32_t>(i);
        const bool taken = std::find(index, index + found, candidate) != index + found;
        if (!taken && (best < 0 || x[i] > x[best])) best = candidate;
      }
      index[found] = best;
    }
  }
}

}  // namespace tutti::train
