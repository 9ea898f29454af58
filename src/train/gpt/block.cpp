// A transformer block with pre-norm: h = x + proj(attention(qkv(norm1(x)))); y = h + feed_forward(norm2(h)).
#include "train/gpt/layers.hpp"
#include "tutti/train/gpt.hpp"

namespace tutti::train {
namespace {

struct BlockRecord : Record {
  LayerNorm::Kept norm1, norm2;
  std::unique_ptr<Record> attention, feed_forward;
  Tensor entered, qkv, attended;                         // of forward
  Tensor d_normed1, d_normed2, d_qkv, d_h, d_projected;  // of backward_input
};

class Block final : public Unit {
 public:
  Block(const GptConfig& config, const ParallelContext& parallel, size_t index, const GptParts& parts)
      : Unit("block." + std::to_string(index)), parallel_(parallel), width_(config.width) {
    const size_t heads = config.heads / parallel.tp_size();
    const Deviations deviations = config.deviations();
    norm1_ = LayerNorm(layout_, name() + ".norm1", width_, parallel.sequence_parallel());
    qkv_ = column_linear(layout_, name() + ".qkv", width_, 3 * width_, 3, deviations.inner, parallel);
    projection_ = row_linear(layout_, name() + ".projection", width_, width_, deviations.last, parallel);
    norm2_ = LayerNorm(layout_, name() + ".norm2", width_, parallel.sequence_parallel());
    feed_forward_ = parts.feed_forward
                        ? parts.feed_forward(layout_, name() + ".mlp", index)
                        : make_mlp(layout_, name() + ".mlp", width_, config.hidden(), deviations, parallel);
    attention_ = parts.attention ? parts.attention(heads, config.head_width())
                                 : make_causal_attention(heads, config.head_width());
  }
  size_t input_count(size_t tokens) const override { return output_count(tokens); }
  size_t output_count(size_t tokens) const override { return parallel_.rows(tokens) * width_; }

  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    auto kept = std::make_unique<BlockRecord>();
    kept->entered = parallel_.enter(call, norm1_.forward(call, x, kept->norm1));
    const size_t rows = kept->entered->count() / width_;
    kept->qkv = call.make(rows * qkv_.out);
    qkv_.forward(call, rows, kept->entered->f32(), kept->qkv->f32());
    kept->attended = attention_->forward(call, kept->qkv, kept->attention);
    const Tensor partial = call.make(rows * width_);
    projection_.multiply(call, rows, kept->attended->f32(), partial->f32());
    const Tensor h = parallel_.leave(call, partial);
    call.device().add_bias({h->count() / width_, width_}, h->f32(), call.weights + projection_.bias);
    call.device().add(h->span(), x->span());
    Tensor y = feed_forward_->forward(call, norm2_.forward(call, h, kept->norm2), kept->feed_forward);
    call.device().add(y->span(), h->span());
    record = std::move(kept);
    return y;
  }

  Tensor backward_input(const Call& call, Record& record, const Tensor& dy) override {
    auto& kept = static_cast<BlockRecord&>(record);
    kept.d_normed2 = feed_forward_->backward_input(call, *kept.feed_forward, dy);
    kept.d_h = copy(call, dy);
    norm2_.backward_input(call, kept.norm2, kept.d_normed2->f32(), kept.d_h->f32());
    kept.d_projected = parallel_.leave_backward(call, kept.d_h);
    const size_t rows = kept.d_projected->count() / width_;
    const Tensor d_attended = call.make(rows * projection_.in);
    projection_.backward_input(call, rows, kept.d_projected->f32(), d_attended->f32());
    kept.d_qkv = attention_->backward(call, *kept.attention, kept.qkv, d_attended);
    kept.attention.reset();
    kept.qkv.reset();
    const Tensor d_entered = call.make(rows * width_);
    qkv_.backward_input(call, rows, kept.d_qkv->f32(), d_entered->f32());
    kept.d_normed1 = parallel_.enter_backward(call, d_entered);
    Tensor dx = copy(call, kept.d_h);
    norm1_.backward_input(call, kept.norm1, kept.d_normed1->f32(), dx->f32());
    return dx;
  }

  void backward_weight(const Call& call, Record& record, float* gradients) override {
    auto& kept = static_cast<BlockRecord&>(record);
    const size_t rows = kept.entered->count() / width_;
    PartialGradients partial(call, parallel_, layout_, gradients);
    feed_forward_->backward_weight(call, *kept.feed_forward, gradients);
    norm2_.backward_weight(call, kept.norm2, kept.d_normed2->f32(), gradients);
    projection_.backward_only_weight(call, rows, kept.attended->f32(), kept.d_projected->f32(), gradients);
    call.device().add_rows({kept.d_h->count() / width_, width_}, kept.d_h->f32(), gradients + projection_.bias);
    qkv_.backward_weight(call, rows, kept.entered->f32(), kept.d_qkv->f32(), gradients);
    norm1_.backward_weight(call, kept.norm1, kept.d_normed1->f32(), gradients);
    partial.sum();
  }

 private:
  static Tensor copy(const Call& call, const Tensor& from) {
    Tensor made = call.make(from->count());
    call.device().copy(made->f32(), from->f32(), from->bytes());
    return made;
  }

  ParallelContext parallel_;
  size_t width_;
  LayerNorm norm1_, norm2_;
  Linear qkv_, projection_;
  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Layer> feed_forward_;
};

}  // namespace

std::unique_ptr<Unit> make_block(const GptConfig& config, const ParallelContext& parallel, size_t index,
                                 const GptParts& parts) {
  return std::make_unique<Block>(config, parallel, index, parts);
}

}  // namespace tutti::train
