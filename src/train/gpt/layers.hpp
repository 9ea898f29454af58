// The layers that the model's units are made of, on a unit's flat parameters.
#pragma once

#include <string>

#include "tutti/train/linear.hpp"

namespace tutti::train {

struct LayerNorm {
  size_t width = 0, gain = 0, bias = 0;

  struct Kept {
    Tensor x, mean, rstd;
  };
  LayerNorm() = default;
  /// `partial`: see Parameter.
  LayerNorm(Layout& layout, const std::string& name, size_t columns, bool partial);
  Tensor forward(const Call& call, const Tensor& x, Kept& kept) const;
  /// dx ← dx + …
  void backward_input(const Call& call, const Kept& kept, const float* dy, float* dx) const;
  void backward_weight(const Call& call, const Kept& kept, const float* dy, float* gradients) const;
};

/// h → gelu → : the MLP, split over tensor-parallel ranks by its hidden width.
std::unique_ptr<Layer> make_mlp(Layout& layout, const std::string& prefix, size_t width, size_t hidden,
                                const Deviations& deviations, const ParallelContext& parallel);

}  // namespace tutti::train
