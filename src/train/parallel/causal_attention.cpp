// Causal attention of heads that lie on this rank, over the whole sequence: softmax(q kᵀ / √width) v.
#include <cmath>

#include "tutti/train/attention.hpp"

namespace tutti::train {
namespace {

struct AttentionRecord : Record {
  Tensor p;  // the softmax: sequences × heads × length × length
};

class CausalAttention final : public Attention {
 public:
  CausalAttention(size_t heads, size_t width)
      : heads_(heads), width_(width), factor_(1 / std::sqrt(static_cast<float>(width))) {}

  Tensor forward(const Call& call, const Tensor& qkv, std::unique_ptr<Record>& record) override {
    const size_t t = call.batch.length;
    auto kept = std::make_unique<AttentionRecord>();
    kept->p = call.make(call.batch.sequences * heads_ * t * t);
    Tensor out = call.make(call.batch.tokens_count() * heads_ * width_);
    for (size_t i = 0; i < call.batch.sequences * heads_; ++i) {
      const At at = place(i, t);
      const float* const q = qkv->f32() + at.qkv;
      float* const p = kept->p->f32() + i * t * t;
      call.device().gemm({.transpose_b = true,
                          .m = t,
                          .n = t,
                          .k = width_,
                          .a = q,
                          .lda = 3 * row(),
                          .b = q + row(),
                          .ldb = 3 * row(),
                          .c = p,
                          .ldc = t});
      call.device().softmax({t, t}, factor_, true, p, nullptr);
      call.device().gemm({.m = t,
                          .n = width_,
                          .k = t,
                          .a = p,
                          .lda = t,
                          .b = q + 2 * row(),
                          .ldb = 3 * row(),
                          .c = out->f32() + at.out,
                          .ldc = row()});
    }
    record = std::move(kept);
    return out;
  }

  Tensor backward(const Call& call, Record& record, const Tensor& qkv, const Tensor& d_out) override {
    const size_t t = call.batch.length;
    const Tensor& kept = static_cast<AttentionRecord&>(record).p;
    Tensor d_qkv = call.make(qkv->count());
    const Tensor scores = call.make(t * t);
    float* const ds = scores->f32();
    for (size_t i = 0; i < call.batch.sequences * heads_; ++i) {
      const At at = place(i, t);
      const float *const q = qkv->f32() + at.qkv, *const k = q + row(), *const v = k + row();
      float *const dq = d_qkv->f32() + at.qkv, *const dk = dq + row(), *const dv = dk + row();
      const float *const p = kept->f32() + i * t * t, *const d = d_out->f32() + at.out;
      const size_t ld = 3 * row();
      call.device().gemm({.transpose_a = true,
                          .m = t,
                          .n = width_,
                          .k = t,
                          .a = p,
                          .lda = t,
                          .b = d,
                          .ldb = row(),
                          .c = dv,
                          .ldc = ld});
      call.device().gemm({.transpose_b = true,
                          .m = t,
                          .n = t,
                          .k = width_,
                          .a = d,
                          .lda = row(),
                          .b = v,
                          .ldb = ld,
                          .c = ds,
                          .ldc = t});
      call.device().softmax_backward({t, t}, factor_, p, nullptr, ds);
      call.device().gemm({.m = t, .n = width_, .k = t, .a = ds, .lda = t, .b = k, .ldb = ld, .c = dq, .ldc = ld});
      call.device().gemm(
          {.transpose_a = true, .m = t, .n = width_, .k = t, .a = ds, .lda = t, .b = q, .ldb = ld, .c = dk, .ldc = ld});
    }
    return d_qkv;
  }

 private:
  /// Where the q of a sequence's head, and its output, begin.
  struct At {
    size_t qkv, out;
  };
  At place(size_t i, size_t t) const {
    const size_t first_row = i / heads_ * t, head = i % heads_ * width_;
    return {first_row * 3 * row() + head, first_row * row() + head};
  }
  size_t row() const { return heads_ * width_; }

  size_t heads_, width_;
  float factor_;
};

}  // namespace

std::unique_ptr<Attention> make_causal_attention(size_t heads, size_t head_width) {
  return std::make_unique<CausalAttention>(heads, head_width);
}

}  // namespace tutti::train
