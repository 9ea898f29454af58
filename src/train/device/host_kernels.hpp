// The model's kernels on the host, except the matrix product.
#pragma once

#include "tutti/train/device.hpp"

namespace tutti::train {

class HostKernels : public Device {
 public:
  void layer_norm(Extent extent, const float* x, const float* gain, const float* bias, float* y, float* mean,
                  float* rstd) override;
  void layer_norm_backward_input(Extent extent, const float* dy, const float* x, const float* gain, const float* mean,
                                 const float* rstd, float* dx) override;
  void layer_norm_backward_weight(Extent extent, const float* dy, const float* x, const float* mean, const float* rstd,
                                  float* d_gain, float* d_bias) override;
  void gelu(size_t count, const float* x, float* y) override;
  void gelu_backward(size_t count, const float* x, const float* dy, float* dx) override;
  void add_bias(Extent extent, float* y, const float* bias) override;
  void add_rows(Extent extent, const float* dy, float* sums) override;
  void causal_softmax(size_t rows, float factor, float* scores) override;
  void softmax_backward(Extent extent, float factor, const float* p, float* d_scores) override;
  void embed(Extent extent, const int32_t* index, const float* table, float* y, bool accumulate) override;
  void embed_backward(Extent extent, const int32_t* index, const float* dy, float* d_table) override;
  double cross_entropy(Extent extent, const int32_t* target, float factor, float* logits) override;
};

}  // namespace tutti::train
