// The model's two ends: the embedding, and the head with the loss.
#include "train/gpt/layers.hpp"
#include "tutti/train/gpt.hpp"

namespace tutti::train {
namespace {

struct EmbeddingRecord : Record {
  Tensor dy;
};

/// x = token[t] + position[p].
class Embedding final : public Unit {
 public:
  Embedding(const GptConfig& config, const ParallelContext& parallel)
      : Unit("embedding"),
        parallel_(parallel),
        width_(config.width),
        token_(layout_.add("embedding.token", {config.vocabulary, config.width}, Initial::normal(0.02f))),
        position_(layout_.add("embedding.position", {config.length, config.width}, Initial::normal(0.02f))) {}
  size_t input_count(size_t /*tokens*/) const override { return 0; }
  size_t output_count(size_t tokens) const override { return parallel_.rows(tokens) * width_; }

  Tensor forward(const Call& call, const Tensor& /*x*/, std::unique_ptr<Record>& record) override {
    const Extent extent{call.batch.tokens_count(), width_};
    Tensor y = call.make(extent.rows * width_);
    call.device().embed(extent, call.batch.tokens, call.weights + token_, y->f32(), false);
    call.device().embed(extent, call.batch.positions, call.weights + position_, y->f32(), true);
    record = std::make_unique<EmbeddingRecord>();
    return y;
  }
  Tensor backward_input(const Call& /*call*/, Record& record, const Tensor& dy) override {
    static_cast<EmbeddingRecord&>(record).dy = dy;
    return nullptr;
  }
  void backward_weight(const Call& call, Record& record, float* gradients) override {
    const Extent extent{call.batch.tokens_count(), width_};
    const float* const dy = static_cast<EmbeddingRecord&>(record).dy->f32();
    call.device().embed_backward(extent, call.batch.tokens, dy, gradients + token_);
    call.device().embed_backward(extent, call.batch.positions, dy, gradients + position_);
  }

 private:
  ParallelContext parallel_;
  size_t width_, token_, position_;
};

struct HeadRecord : Record {
  LayerNorm::Kept norm;
  Tensor normed, d_logits;
  Tensor d_normed;
};

/// The mean cross-entropy of norm(x) · Wᵀ. Forward makes the gradient by the logits at once: nothing else needs them.
class Head final : public Unit {
 public:
  explicit Head(const GptConfig& config)
      : Unit("head"), norm_(layout_, "head.norm", config.width), logits_{.in = config.width, .out = config.vocabulary} {
    logits_.biased = false;
    logits_.weight = layout_.add("head.weight", {config.vocabulary, config.width}, Initial::normal(0.02f));
  }
  size_t input_count(size_t tokens) const override { return tokens * logits_.in; }
  size_t output_count(size_t /*tokens*/) const override { return 0; }

  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    auto kept = std::make_unique<HeadRecord>();
    const size_t rows = call.batch.tokens_count();
    kept->normed = norm_.forward(call, x, kept->norm);
    kept->d_logits = call.make(rows * logits_.out);
    logits_.forward(call, rows, kept->normed->f32(), kept->d_logits->f32());
    const auto tokens = static_cast<double>(rows);
    const double losses = call.device().cross_entropy({rows, logits_.out}, call.batch.targets,
                                                      static_cast<float>(1 / tokens), kept->d_logits->f32());
    *call.batch.loss = losses / tokens;
    record = std::move(kept);
    return nullptr;
  }
  Tensor backward_input(const Call& call, Record& record, const Tensor& /*dy*/) override {
    auto& kept = static_cast<HeadRecord&>(record);
    kept.d_normed = call.make(kept.normed->count());
    Tensor dx = call.make(kept.normed->count());
    logits_.backward_input(call, call.batch.tokens_count(), kept.d_logits->f32(), kept.d_normed->f32());
    call.device().zero(dx->f32(), dx->bytes());
    norm_.backward_input(call, kept.norm, kept.d_normed->f32(), dx->f32());
    return dx;
  }
  void backward_weight(const Call& call, Record& record, float* gradients) override {
    auto& kept = static_cast<HeadRecord&>(record);
    logits_.backward_weight(call, call.batch.tokens_count(), kept.normed->f32(), kept.d_logits->f32(), gradients);
    norm_.backward_weight(call, kept.norm, kept.d_normed->f32(), gradients);
  }

 private:
  LayerNorm norm_;
  Linear logits_;
};

}  // namespace

std::unique_ptr<Unit> make_embedding(const GptConfig& config, const ParallelContext& parallel) {
  return std::make_unique<Embedding>(config, parallel);
}

std::unique_ptr<Unit> make_head(const GptConfig& config, const ParallelContext& /*parallel*/) {
  return std::make_unique<Head>(config);
}

}  // namespace tutti::train
