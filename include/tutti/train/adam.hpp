// Adam's state for a span of parameters: a whole unit's, or a rank's shard.
#pragma once

#include <span>

#include "tutti/train/ledger.hpp"

namespace tutti::train {

/// Master weights in f32 and two moments: 12 bytes a parameter. f32 weights are their own master: 8 bytes.
class Adam {
 public:
  Adam() = default;
  /// State for weights with these values; moments are zero.
  Adam(Ledger& ledger, Span weights);
  /// Sets the elements from `first` on, master and weights, to values on the host.
  void load(Device& device, size_t first, std::span<const float> values, Span weights);
  /// The elements from `first` on: the master's, exact.
  void read(Device& device, size_t first, std::span<float> values, Span weights) const;
  /// weights ← the step with `gradients`: the spans that it was made for, or copies at other places.
  void step(Device& device, const AdamStep& step, Span weights, Span gradients);
  /// For checkpoints; the master is empty for f32 weights.
  Span master() const { return master_.span(); }
  Span moment1() const { return moment1_.span(); }
  Span moment2() const { return moment2_.span(); }

 private:
  Buffer master_, moment1_, moment2_;
};

}  // namespace tutti::train
