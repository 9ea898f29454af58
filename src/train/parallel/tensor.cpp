// Tensor parallelism's conjugate operators, and with sequence parallelism theirs.
//
// Without sequence parallelism, a transformer block has two regions (attention, MLP), each with one all-reduce when it
// is left forward and one when it is left backward: 4 a block, each of tokens × width elements; a rank sends
// 4 · 2(t−1)/t · tokens · width. With it, each all-reduce is a reduce-scatter here and an all-gather there, which is
// what a bandwidth-optimal all-reduce consists of: so the bytes are the same. What lies outside the regions (norms,
// residual stream) has 1/t of the rows.
// Source: Shoeybi et al., Megatron-LM, 2019, §3; Korthikanti et al., Reducing activation recomputation in large
// transformer models, MLSys 2023, §4.2.2.
#include "tutti/train/parallel.hpp"

#include <algorithm>

namespace tutti::train {
namespace {

Tensor gathered(const Call& call, Collectives& tp, const Tensor& part) {
  Tensor whole = call.make(part->count() * static_cast<size_t>(tp.size()));
  tp.all_gather(Purpose::SequenceAxis, part->span(), whole->span());
  return whole;
}

Tensor scattered(const Call& call, Collectives& tp, const Tensor& partial) {
  Tensor part = call.make(partial->count() / static_cast<size_t>(tp.size()));
  tp.reduce_scatter(Purpose::SequenceAxis, partial->span(), part->span(), Op::Sum);
  return part;
}

Tensor summed(Collectives& tp, const Tensor& partial) {
  tp.all_reduce(Purpose::TensorAxis, partial->span(), Op::Sum);
  return partial;
}

}  // namespace

Tensor ParallelContext::enter(const Call& call, const Tensor& x) const {
  return sequence_parallel_ ? gathered(call, tp(), x) : x;
}

Tensor ParallelContext::enter_backward(const Call& call, const Tensor& dx) const {
  return sequence_parallel_ ? scattered(call, tp(), dx) : summed(tp(), dx);
}

Tensor ParallelContext::leave(const Call& call, const Tensor& partial) const {
  return sequence_parallel_ ? scattered(call, tp(), partial) : summed(tp(), partial);
}

Tensor ParallelContext::leave_backward(const Call& call, const Tensor& dy) const {
  return sequence_parallel_ ? gathered(call, tp(), dy) : dy;
}

Collectives& ParallelContext::absent() {
  static Collectives none;
  return none;
}

Entries piece_of(size_t whole, size_t index, size_t parts) {
  const size_t each = whole / parts, longer = whole % parts;
  return {index * each + std::min(index, longer), each + (index < longer ? 1 : 0)};
}

template <class Function>
void PartialGradients::each(Function function) const {
  size_t place = 0;
  for (const Parameter& p : layout_.parameters()) {
    if (!p.partial) continue;
    function(gradients_ + p.offset, p.count, place);
    place += p.count;
  }
}

PartialGradients::PartialGradients(const Call& call, const ParallelContext& parallel, const Layout& layout,
                                   float* gradients)
    : call_(call), tp_(parallel.tp()), layout_(layout), gradients_(gradients) {
  if (tp_.absent()) return;
  size_t count = 0;
  each([&](float*, size_t length, size_t) { count += length; });
  before_ = call.ledger.allocate(Kind::Buffers, count);
  each([&](float* gradient, size_t length, size_t place) {
    call.device().copy(before_.f32() + place, gradient, length * sizeof(float));
    call.device().zero(gradient, length * sizeof(float));
  });
}

void PartialGradients::sum() {
  if (before_.count() == 0) return;
  Buffer fresh = call_.ledger.allocate(Kind::Buffers, before_.count(), DType::F32, true);
  each([&](const float* gradient, size_t length, size_t place) {
    call_.device().copy(fresh.f32() + place, gradient, length * sizeof(float));
  });
  tp_.all_reduce(Purpose::TensorAxis, fresh.span(), Op::Sum);
  call_.device().add(fresh.span(), before_.span());
  each([&](float* gradient, size_t length, size_t place) {
    call_.device().copy(gradient, fresh.f32() + place, length * sizeof(float));
  });
}

}  // namespace tutti::train
