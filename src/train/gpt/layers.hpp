// The layers that units are made of: affine maps and layer norm on a unit's flat parameters.
#pragma once

#include <string>
#include <vector>

#include "tutti/train/parallel.hpp"

namespace tutti::train {

/// y (rows × out) = x (rows × in) · Wᵀ + b, with W (out × in).
struct Linear {
  size_t in = 0, out = 0;
  size_t weight = 0, bias = 0;  ///< offsets in the unit's flat buffer
  bool biased = true;

  void forward(const Call& call, size_t rows, const float* x, float* y) const;
  /// The same without the bias.
  void multiply(const Call& call, size_t rows, const float* x, float* y) const;
  void backward_input(const Call& call, size_t rows, const float* dy, float* dx) const;
  /// The weight's and the bias's.
  void backward_weight(const Call& call, size_t rows, const float* x, const float* dy, float* gradients) const;
  void backward_only_weight(const Call& call, size_t rows, const float* x, const float* dy, float* gradients) const;
};

/// Split by outputs: rank r has rows [r·out/t, (r+1)·out/t) of W and of b. `groups`: W is so many matrices, each split
/// so (q, k and v: 3).
Linear column_linear(Layout& layout, const std::string& name, size_t in, size_t out, size_t groups, float deviation,
                     const ParallelContext& parallel);
/// Split by inputs: rank r has columns of W. The bias is whole on every rank, and added after the sum over ranks.
Linear row_linear(Layout& layout, const std::string& name, size_t in, size_t out, float deviation,
                  const ParallelContext& parallel);

struct LayerNorm {
  size_t width = 0, gain = 0, bias = 0;

  struct Kept {
    Tensor x, mean, rstd;
  };
  LayerNorm() = default;
  LayerNorm(Layout& layout, const std::string& name, size_t columns);
  Tensor forward(const Call& call, const Tensor& x, Kept& kept) const;
  /// dx ← dx + …
  void backward_input(const Call& call, const Kept& kept, const float* dy, float* dx) const;
  void backward_weight(const Call& call, const Kept& kept, const float* dy, float* gradients) const;
};

/// h → gelu → : the MLP, split over tensor-parallel ranks by its hidden width.
std::unique_ptr<Layer> make_mlp(Layout& layout, const std::string& prefix, size_t width, size_t hidden, float deviation,
                                const ParallelContext& parallel);

}  // namespace tutti::train
