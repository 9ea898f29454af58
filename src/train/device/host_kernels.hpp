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
  void scale_rows(Extent extent, const float* factors, const float* x, float* y) override;
  void row_dots(Extent extent, const float* a, const float* b, float* dots) override;
  void copy_rows(Extent extent, Matrix from, Matrix to) override;
  void softmax(Extent extent, float factor, bool causal, float* scores, float* log_sum) override;
  void softmax_again(Extent extent, float factor, bool causal, const float* log_sum, float* scores) override;
  void softmax_backward(Extent extent, float factor, const float* p, const float* along, float* d_scores) override;
  void merge_attention(Extent extent, const float* block, const float* block_log_sum, Matrix out,
                       float* log_sum) override;
  void top_k(Extent extent, size_t k, const float* x, int32_t* index) override;
  void embed(Extent extent, const int32_t* index, Entries here, const float* table, float* y, bool accumulate) override;
  void embed_backward(Extent extent, const int32_t* index, Entries here, const float* dy, float* d_table) override;
  void row_max(Extent extent, const float* x, float* most) override;
  void cross_entropy_sums(Extent extent, const int32_t* target, Entries here, const float* most, float* logits,
                          float* sums, float* scored) override;
  double cross_entropy_gradient(Extent extent, const int32_t* target, Entries here, const float* sums,
                                const float* scored, float factor, float* logits) override;
};

}  // namespace tutti::train
