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
      const Matrix q = qkv_of(*qkv, i, t, 0), k = qkv_of(*qkv, i, t, 1), v = qkv_of(*qkv, i, t, 2);
      const Matrix p{kept->p->f32() + i * t * t, t};
      call.device().gemm({.transpose_b = true, .m = t, .n = t, .k = width_, .a = q, .b = k, .c = p});
      call.device().softmax({t, t}, factor_, true, p.data, nullptr);
      call.device().gemm({.m = t, .n = width_, .k = t, .a = p, .b = v, .c = out_of(*out, i, t)});
    }
    record = std::move(kept);
    return out;
  }

  Tensor backward(const Call& call, Record& record, const Tensor& qkv, const Tensor& d_out) override {
    const size_t t = call.batch.length;
    const Tensor& kept = static_cast<AttentionRecord&>(record).p;
    Tensor d_qkv = call.make(qkv->count());
    const Tensor scores = call.make(t * t);
    const Matrix ds{scores->f32(), t};
    for (size_t i = 0; i < call.batch.sequences * heads_; ++i) {
      const Matrix q = qkv_of(*qkv, i, t, 0), k = qkv_of(*qkv, i, t, 1), v = qkv_of(*qkv, i, t, 2);
      const Matrix dq = qkv_of(*d_qkv, i, t, 0), dk = qkv_of(*d_qkv, i, t, 1), dv = qkv_of(*d_qkv, i, t, 2);
      const Matrix p{kept->f32() + i * t * t, t}, d = out_of(*d_out, i, t);
      call.device().gemm({.transpose_a = true, .m = t, .n = width_, .k = t, .a = p, .b = d, .c = dv});
      call.device().gemm({.transpose_b = true, .m = t, .n = t, .k = width_, .a = d, .b = v, .c = ds});
      call.device().softmax_backward({t, t}, factor_, p.data, nullptr, ds.data);
      call.device().gemm({.m = t, .n = width_, .k = t, .a = ds, .b = k, .c = dq});
      call.device().gemm({.transpose_a = true, .m = t, .n = width_, .k = t, .a = ds, .b = q, .c = dk});
    }
    return d_qkv;
  }

 private:
  /// The q (`part` 0), k (1) or v (2) of a sequence's head, and its output.
  Matrix qkv_of(const Buffer& qkv, size_t i, size_t t, size_t part) const {
    return {qkv.f32() + (i / heads_ * t * 3 + part) * row() + i % heads_ * width_, 3 * row()};
  }
  Matrix out_of(const Buffer& out, size_t i, size_t t) const {
    return {out.f32() + i / heads_ * t * row() + i % heads_ * width_, row()};
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
