// The model's two ends: the embedding, and the head with the loss.
#include "train/gpt/layers.hpp"
#include "tutti/train/gpt.hpp"

namespace tutti::train {
namespace {

struct EmbeddingRecord : Record {
  Tensor dy, d_tokens;  // d_tokens: of all tokens
};

/// This rank's rows of a table with a row a token.
size_t add_table(Layout& layout, const std::string& name, const GptConfig& config, Entries here) {
  return layout.add_piece({.name = name,
                           .shape = {here.count, config.width},
                           .full = {config.vocabulary, config.width},
                           .start = {here.first, 0},
                           .initial = Initial::normal(0.02f)});
}

/// x = token[t] + position[p]. Each tensor-parallel rank looks up the tokens of its part of the vocabulary; their sum
/// over the ranks has them all.
class Embedding final : public Unit {
 public:
  Embedding(const GptConfig& config, const ParallelContext& parallel)
      : Unit("embedding"),
        parallel_(parallel),
        width_(config.width),
        here_(piece_of(config.vocabulary, parallel.tp_rank(), parallel.tp_size())),
        length_(config.length),
        token_(add_table(layout_, "embedding.token", config, here_)),
        position_(layout_.add("embedding.position", {config.length, config.width}, Initial::normal(0.02f),
                              parallel.sequence_parallel())) {}
  size_t input_count(size_t /*tokens*/) const override { return 0; }
  size_t output_count(size_t tokens) const override { return parallel_.rows(tokens) * width_; }

  Tensor forward(const Call& call, const Tensor& /*x*/, std::unique_ptr<Record>& record) override {
    const size_t tokens = call.batch.tokens_count();
    const Tensor partial = call.make(tokens * width_);
    call.device().embed({tokens, width_}, call.batch.tokens, here_, call.weights + token_, partial->f32(), false);
    Tensor y = parallel_.leave(call, partial);
    call.device().embed({parallel_.rows(tokens), width_}, positions(call), {0, length_}, call.weights + position_,
                        y->f32(), true);
    record = std::make_unique<EmbeddingRecord>();
    return y;
  }
  Tensor backward_input(const Call& call, Record& record, const Tensor& dy) override {
    auto& kept = static_cast<EmbeddingRecord&>(record);
    kept.dy = dy;
    kept.d_tokens = parallel_.leave_backward(call, dy);
    return nullptr;
  }
  void backward_weight(const Call& call, Record& record, float* gradients) override {
    const auto& kept = static_cast<EmbeddingRecord&>(record);
    const size_t tokens = call.batch.tokens_count();
    PartialGradients partial(call, parallel_, layout_, gradients);
    call.device().embed_backward({tokens, width_}, call.batch.tokens, here_, kept.d_tokens->f32(), gradients + token_);
    call.device().embed_backward({parallel_.rows(tokens), width_}, positions(call), {0, length_}, kept.dy->f32(),
                                 gradients + position_);
    partial.sum();
  }

 private:
  const int32_t* positions(const Call& call) const {
    return call.batch.positions + parallel_.first_row(call.batch.tokens_count());
  }

  ParallelContext parallel_;
  size_t width_;
  Entries here_;  // of the vocabulary
  size_t length_, token_, position_;
};

struct HeadRecord : Record {
  LayerNorm::Kept norm;
  Tensor entered, d_logits, d_normed;
};

/// The mean cross-entropy of norm(x) · Wᵀ. Each tensor-parallel rank has the logits of its part of the vocabulary; the
/// ranks exchange each token's largest logit, sum of exponentials and target's logit, never the logits. Forward makes
/// the gradient by the logits at once: nothing else needs them.
class Head final : public Unit {
 public:
  Head(const GptConfig& config, const ParallelContext& parallel)
      : Unit("head"),
        parallel_(parallel),
        here_(piece_of(config.vocabulary, parallel.tp_rank(), parallel.tp_size())),
        norm_(layout_, "head.norm", config.width, parallel.sequence_parallel()),
        logits_{.in = config.width, .out = here_.count} {
    logits_.biased = false;
    logits_.weight = add_table(layout_, "head.weight", config, here_);
  }
  size_t input_count(size_t tokens) const override { return parallel_.rows(tokens) * logits_.in; }
  size_t output_count(size_t /*tokens*/) const override { return 0; }

  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    auto kept = std::make_unique<HeadRecord>();
    const size_t rows = call.batch.tokens_count();
    kept->entered = parallel_.enter(call, norm_.forward(call, x, kept->norm));
    kept->d_logits = call.make(rows * logits_.out);
    logits_.forward(call, rows, kept->entered->f32(), kept->d_logits->f32());
    *call.batch.loss = loss(call, rows, kept->d_logits->f32());
    record = std::move(kept);
    return nullptr;
  }
  Tensor backward_input(const Call& call, Record& record, const Tensor& /*dy*/) override {
    auto& kept = static_cast<HeadRecord&>(record);
    const Tensor d_entered = call.make(kept.entered->count());
    logits_.backward_input(call, call.batch.tokens_count(), kept.d_logits->f32(), d_entered->f32());
    kept.d_normed = parallel_.enter_backward(call, d_entered);
    Tensor dx = call.make(kept.d_normed->count());
    call.device().zero(dx->f32(), dx->bytes());
    norm_.backward_input(call, kept.norm, kept.d_normed->f32(), dx->f32());
    return dx;
  }
  void backward_weight(const Call& call, Record& record, float* gradients) override {
    auto& kept = static_cast<HeadRecord&>(record);
    PartialGradients partial(call, parallel_, layout_, gradients);
    logits_.backward_weight(call, call.batch.tokens_count(), kept.entered->f32(), kept.d_logits->f32(), gradients);
    norm_.backward_weight(call, kept.norm, kept.d_normed->f32(), gradients);
    partial.sum();
  }

 private:
  /// The mean loss; the logits become their gradient.
  double loss(const Call& call, size_t rows, float* logits) const {
    const Extent extent{rows, here_.count};
    const Tensor most = call.make(rows), sums = call.make(2 * rows);  // of exponentials; then the targets' logits
    call.device().row_max(extent, logits, most->f32());
    parallel_.tp().all_reduce(Purpose::TensorAxis, most->span(), Op::Max);
    float* const scored = sums->f32() + rows;
    call.device().cross_entropy_sums(extent, call.batch.targets, here_, most->f32(), logits, sums->f32(), scored);
    parallel_.tp().all_reduce(Purpose::TensorAxis, sums->span(), Op::Sum);
    const auto tokens = static_cast<double>(rows);
    return call.device().cross_entropy_gradient(extent, call.batch.targets, here_, sums->f32(), scored,
                                                static_cast<float>(1 / tokens), logits) /
           tokens;
  }

  ParallelContext parallel_;
  Entries here_;  // of the vocabulary
  LayerNorm norm_;
  Linear logits_;
};

}  // namespace

std::unique_ptr<Unit> make_embedding(const GptConfig& config, const ParallelContext& parallel) {
  return std::make_unique<Embedding>(config, parallel);
}

std::unique_ptr<Unit> make_head(const GptConfig& config, const ParallelContext& parallel) {
  return std::make_unique<Head>(config, parallel);
}

}  // namespace tutti::train
