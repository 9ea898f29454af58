// How a unit is split over ranks: the communicators that its layers call during forward and backward.
#pragma once

#include "tutti/train/collectives.hpp"
#include "tutti/train/unit.hpp"

namespace tutti::train {

/// The axes that split a unit, and the conjugate operators of Megatron-LM (Shoeybi et al., 2019, §3), with which layers
/// enter and leave a tensor-parallel region:
///
///     enter (f): forward identity,   backward all-reduce       with sequence parallelism: all-gather / reduce-scatter
///     leave (g): forward all-reduce, backward identity         with sequence parallelism: reduce-scatter / all-gather
///
/// The ranks outside a region hold the same activations, or by sequence parallelism (Korthikanti et al., 2022) each an
/// equal part of the tokens. Axes of size 1 are absent: then all four return their argument.
class ParallelContext {
 public:
  /// Nothing is split.
  ParallelContext() = default;
  ParallelContext(Collectives& tp, bool sequence_parallel, Collectives& cp, Collectives& ep)
      : tp_(&tp), cp_(&cp), ep_(&ep), sequence_parallel_(sequence_parallel && !tp.absent()) {}

  Tensor enter(const Call& call, const Tensor& x) const;
  Tensor enter_backward(const Call& call, const Tensor& dx) const;
  Tensor leave(const Call& call, const Tensor& partial) const;
  Tensor leave_backward(const Call& call, const Tensor& dy) const;

  size_t tp_size() const { return static_cast<size_t>(tp().size()); }
  size_t tp_rank() const { return static_cast<size_t>(tp().rank()); }
  bool sequence_parallel() const { return sequence_parallel_; }
  /// Rows of an activation outside a tensor-parallel region, for so many tokens.
  size_t rows(size_t tokens) const { return sequence_parallel_ ? tokens / tp_size() : tokens; }
  Collectives& tp() const { return tp_ == nullptr ? absent() : *tp_; }
  Collectives& cp() const { return cp_ == nullptr ? absent() : *cp_; }
  Collectives& ep() const { return ep_ == nullptr ? absent() : *ep_; }

 private:
  static Collectives& absent();
  Collectives *tp_ = nullptr, *cp_ = nullptr, *ep_ = nullptr;
  bool sequence_parallel_ = false;
};

}  // namespace tutti::train
