// How a unit is split over ranks: the communicators that its layers call during forward and backward.
#pragma once

#include <string>

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

  /// The argument of `leave` and `enter_backward` may be overwritten: its memory may be the result's.
  Tensor enter(const Call& call, const Tensor& x) const;
  Tensor enter_backward(const Call& call, const Tensor& dx) const;
  Tensor leave(const Call& call, const Tensor& partial) const;
  Tensor leave_backward(const Call& call, const Tensor& dy) const;

  size_t tp_size() const { return static_cast<size_t>(tp().size()); }
  size_t tp_rank() const { return static_cast<size_t>(tp().rank()); }
  bool sequence_parallel() const { return sequence_parallel_; }
  /// Rows of an activation outside a tensor-parallel region, for so many tokens.
  size_t rows(size_t tokens) const { return sequence_parallel_ ? tokens / tp_size() : tokens; }
  /// The first of them among all.
  size_t first_row(size_t tokens) const { return sequence_parallel_ ? rows(tokens) * tp_rank() : 0; }
  Collectives& tp() const { return tp_ == nullptr ? absent() : *tp_; }
  Collectives& cp() const { return cp_ == nullptr ? absent() : *cp_; }
  Collectives& ep() const { return ep_ == nullptr ? absent() : *ep_; }

 private:
  static Collectives& absent();
  Collectives *tp_ = nullptr, *cp_ = nullptr, *ep_ = nullptr;
  bool sequence_parallel_ = false;
};

/// Part `index` of `parts` of [0, whole), as equal as can be: earlier parts may have one more.
Entries piece_of(size_t whole, size_t index, size_t parts);

/// Throws Error(InvalidArgument), which says what divides, unless `by` divides `of`.
void check_divides(const char* part, size_t by, const std::string& whole, size_t of);

/// Gradients of parameters that every tensor-parallel rank holds whole, but of which it computes a part: its tokens'
/// (norms and biases under sequence parallelism) or its hidden columns' (a router). Stands around what a unit adds to
/// its gradients for one micro-batch, and sums that over the ranks in one all-reduce:
///
///     PartialGradients partial(call, parallel, layout, gradients);
///     … the unit adds to `gradients` …
///     partial.sum();
class PartialGradients {
 public:
  PartialGradients(const Call& call, const ParallelContext& parallel, const Layout& layout, float* gradients);
  void sum();

 private:
  /// Calls function(gradient of a partial parameter, its count, its place among them).
  template <class Function>
  void each(Function function) const;
  const Call& call_;
  Collectives& tp_;
  const Layout& layout_;
  float* gradients_;
  Buffer before_;  // what earlier micro-batches have added
};

}  // namespace tutti::train
