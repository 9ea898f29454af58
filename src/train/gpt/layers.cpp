#include "train/gpt/layers.hpp"

namespace tutti::train {

LayerNorm::LayerNorm(Layout& layout, const std::string& name, size_t columns, bool partial)
    : width(columns),
      gain(layout.add(name + ".gain", {columns}, Initial::one(), partial)),
      bias(layout.add(name + ".bias", {columns}, Initial::zero(), partial)) {}

Tensor LayerNorm::forward(const Call& call, const Tensor& x, Kept& kept) const {
  const size_t rows = x->count() / width;
  kept = {x, call.make(rows), call.make(rows)};
  Tensor y = call.make(x->count());
  call.device().layer_norm({rows, width}, x->f32(), call.weights + gain, call.weights + bias, y->f32(),
                           kept.mean->f32(), kept.rstd->f32());
  return y;
}

void LayerNorm::backward_input(const Call& call, const Kept& kept, const float* dy, float* dx) const {
  call.device().layer_norm_backward_input({kept.x->count() / width, width}, dy, kept.x->f32(), call.weights + gain,
                                          kept.mean->f32(), kept.rstd->f32(), dx);
}

void LayerNorm::backward_weight(const Call& call, const Kept& kept, const float* dy, float* gradients) const {
  call.device().layer_norm_backward_weight({kept.x->count() / width, width}, dy, kept.x->f32(), kept.mean->f32(),
                                           kept.rstd->f32(), gradients + gain, gradients + bias);
}

}  // namespace tutti::train
