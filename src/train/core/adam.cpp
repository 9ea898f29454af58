#include "tutti/train/adam.hpp"

namespace tutti::train {

Adam::Adam(Ledger& ledger, Span weights)
    : master_(weights.type == DType::F32 ? Buffer() : ledger.allocate(Kind::Optimizer, weights.count)),
      moment1_(ledger.allocate(Kind::Optimizer, weights.count)),
      moment2_(ledger.allocate(Kind::Optimizer, weights.count)) {
  Device& device = ledger.device();
  if (master_.count() > 0) device.convert(master_.span(), weights);
  if (weights.empty()) return;
  device.zero(moment1_.f32(), moment1_.bytes());
  device.zero(moment2_.f32(), moment2_.bytes());
}

void Adam::load(Device& device, size_t first, std::span<const float> values, Span weights) {
  const Span to = (master_.count() > 0 ? master_.span() : weights).part(first, values.size());
  device.upload(to.data, values.data(), values.size_bytes());
  if (master_.count() > 0) device.convert(weights.part(first, values.size()), to);
}

void Adam::read(Device& device, size_t first, std::span<float> values, Span weights) const {
  const Span from = (master_.count() > 0 ? master_.span() : weights).part(first, values.size());
  device.download(values.data(), from.data, values.size_bytes());
}

void Adam::step(Device& device, const AdamStep& step, Span weights, Span gradients) {
  float* const master = master_.count() > 0 ? master_.f32() : weights.f32();
  device.adam(step, weights, master, moment1_.f32(), moment2_.f32(), gradients);
}

}  // namespace tutti::train
