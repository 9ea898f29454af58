// Affine maps on a unit's flat parameters, whole or split over tensor-parallel ranks.
//
// A column-parallel map followed by a row-parallel one needs one sum over the ranks, at the end (Megatron-LM):
//
//     enter → column_linear (each rank: its outputs) → any function of single elements → row_linear → leave
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

/// Column-parallel: split by outputs. Rank r has rows [r·out/t, (r+1)·out/t) of W and of b. `groups`: W is that many
/// matrices, each split so (q, k and v: 3, so that each rank has all three of its heads). Throws Error(InvalidArgument)
/// unless t divides out / groups.
Linear column_linear(Layout& layout, const std::string& name, size_t in, size_t out, size_t groups, float deviation,
                     const ParallelContext& parallel);
/// Row-parallel: split by inputs. Rank r has columns [r·in/t, (r+1)·in/t) of W. The bias is whole on every rank, and
/// added after the sum over ranks: `multiply`, ParallelContext::leave, add_bias. Throws as above unless t divides in.
Linear row_linear(Layout& layout, const std::string& name, size_t in, size_t out, float deviation,
                  const ParallelContext& parallel);

}  // namespace tutti::train
