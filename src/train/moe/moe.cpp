// A mixture of experts as a feed-forward layer.
//
// Each rank routes its own tokens. A token's row is sent once for each of its experts (all-to-all); an expert computes
// the rows that have come from all ranks, the results return (all-to-all), and are added with the router's weights.
// Backward sends the gradients the same two ways. Per rank and pass: 2 · (n−1)/n · tokens · top_k · width elements if
// the experts are used evenly.
//
// Ranks of the expert axis have tokens of their own. An expert's gradient is summed over them by construction; so it is
// divided by their number to be the mean that other gradients are.
// Source: Lepikhin et al., GShard, ICLR 2021, §2.2 (capacity); Gale et al., MegaBlocks, MLSys 2023 (drop-less).
#include <optional>

#include "train/moe/router.hpp"

namespace tutti::train {
namespace {

struct MoeRecord : Record {
  Tensor in;  // as the tensor-parallel region sees it
  Routing routing;
  std::optional<ExpertDispatch> dispatch;
  Buffer token, place;          // [sent row]: its token; its place in tokens × experts
  Tensor gates, returned;       // [sent row]: its weight; the expert's output
  Tensor rows, hidden, active;  // of this rank's experts
  Tensor d_returned, d_hidden;  // of backward_input, at this rank's experts
};

class Moe final : public Layer {
 public:
  Moe(Layout& layout, const std::string& prefix, size_t width, size_t hidden, const Deviations& deviations,
      const MoeConfig& config, const ParallelContext& parallel, Collectives& batch, ExpertLoad& load)
      : parallel_(parallel),
        config_(config),
        width_(width),
        router_(layout, prefix, width, deviations.inner, config, parallel, batch, load) {
    const auto ranks = static_cast<size_t>(parallel.ep().size()), rank = static_cast<size_t>(parallel.ep().rank());
    here_ = config.experts / ranks;
    hidden_ = hidden / parallel.tp_size();
    const size_t expert = rank * here_, column = parallel.tp_rank() * hidden_;
    up_ = layout.add_piece({.name = prefix + ".experts.up",
                            .shape = {here_, hidden_, width},
                            .full = {config.experts, hidden, width},
                            .start = {expert, column, 0},
                            .initial = Initial::normal(deviations.inner),
                            .expert = true});
    down_ = layout.add_piece({.name = prefix + ".experts.down",
                              .shape = {here_, width, hidden_},
                              .full = {config.experts, width, hidden},
                              .start = {expert, 0, column},
                              .initial = Initial::normal(deviations.last),
                              .expert = true});
  }

  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    auto made = std::make_unique<MoeRecord>();
    MoeRecord& kept = *made;
    kept.in = parallel_.enter(call, x);
    const size_t tokens = kept.in->count() / width_;
    kept.routing = router_.route(call, kept.in);
    kept.dispatch.emplace(parallel_.ep(), config_.experts, kept.routing.expert);
    const size_t sent = kept.dispatch->sent();
    index(call, kept);
    kept.gates = call.make(sent);
    call.device().embed({sent, 1}, ids(kept.place), {0, tokens * config_.experts}, kept.routing.probabilities->f32(),
                        kept.gates->f32(), false);
    kept.rows = kept.dispatch->dispatch(call, rows_of_tokens(call, kept, *kept.in), width_);
    kept.returned = kept.dispatch->combine(call, compute(call, kept), width_);
    const Tensor weighted = call.make(kept.returned->count()), partial = call.make(kept.in->count());
    call.device().scale_rows({sent, width_}, kept.gates->f32(), kept.returned->f32(), weighted->f32());
    add_to_tokens(call, kept, *weighted, *partial);
    record = std::move(made);
    return parallel_.leave(call, partial);
  }

  Tensor backward_input(const Call& call, Record& record, const Tensor& dy) override {
    auto& kept = static_cast<MoeRecord&>(record);
    const size_t tokens = kept.in->count() / width_, sent = kept.dispatch->sent();
    const Tensor d_rows = rows_of_tokens(call, kept, *parallel_.leave_backward(call, dy));
    const Tensor d_gates = call.make(sent), d_probabilities = call.make(tokens * config_.experts);
    call.device().row_dots({sent, width_}, d_rows->f32(), kept.returned->f32(), d_gates->f32());
    kept.returned.reset();
    call.device().zero(d_probabilities->f32(), d_probabilities->bytes());
    call.device().embed_backward({sent, 1}, ids(kept.place), {0, d_probabilities->count()}, d_gates->f32(),
                                 d_probabilities->f32());
    call.device().scale_rows({sent, width_}, kept.gates->f32(), d_rows->f32(), d_rows->f32());
    kept.d_returned = kept.dispatch->dispatch(call, d_rows, width_);
    const Tensor dx = call.make(kept.in->count());
    add_to_tokens(call, kept, *kept.dispatch->combine(call, compute_backward(call, kept), width_), *dx);
    router_.backward_input(call, kept.routing, d_probabilities, dx);
    return parallel_.enter_backward(call, dx);
  }

  void backward_weight(const Call& call, Record& record, float* gradients) override {
    const auto& kept = static_cast<MoeRecord&>(record);
    router_.backward_weight(call, kept.routing, kept.in, gradients);
    for (size_t e = 0; e < here_; ++e) {
      add_product(call, kept, e, *kept.d_returned, width_, *kept.active, hidden_, gradients + down_);
      add_product(call, kept, e, *kept.d_hidden, hidden_, *kept.rows, width_, gradients + up_);
    }
  }

 private:
  static const int32_t* ids(const Buffer& buffer) { return static_cast<const int32_t*>(buffer.span().data); }

  /// Makes kept.token and kept.place.
  void index(const Call& call, MoeRecord& kept) const {
    std::vector<int32_t> token, place;
    for (const int32_t pair : kept.dispatch->order()) {
      token.push_back(pair / static_cast<int32_t>(config_.top_k));
      place.push_back(token.back() * static_cast<int32_t>(config_.experts) +
                      kept.routing.expert[static_cast<size_t>(pair)]);
    }
    for (const auto& [to, from] : {std::pair(&kept.token, &token), std::pair(&kept.place, &place)}) {
      *to = call.ledger.allocate(Kind::Activations, from->size(), DType::I32);
      if (!from->empty()) call.device().upload(to->span().data, from->data(), to->bytes());
    }
  }
  /// A copy of a token's row for each row that is sent.
  Tensor rows_of_tokens(const Call& call, const MoeRecord& kept, const Buffer& tokens) const {
    const Extent extent{kept.dispatch->sent(), width_};
    Tensor rows = call.make(extent.rows * width_);
    call.device().embed(extent, ids(kept.token), {0, tokens.count() / width_}, tokens.f32(), rows->f32(), false);
    return rows;
  }
  /// Each token's sum of what has come back for it.
  void add_to_tokens(const Call& call, const MoeRecord& kept, const Buffer& rows, const Buffer& tokens) const {
    call.device().zero(tokens.f32(), tokens.bytes());
    call.device().embed_backward({kept.dispatch->sent(), width_}, ids(kept.token), {0, tokens.count() / width_},
                                 rows.f32(), tokens.f32());
  }

  /// The experts: down(gelu(up(rows))).
  Tensor compute(const Call& call, MoeRecord& kept) const {
    const size_t rows = kept.dispatch->received();
    kept.hidden = call.make(rows * hidden_);
    kept.active = call.make(rows * hidden_);
    Tensor out = call.make(rows * width_);
    for (size_t e = 0; e < here_; ++e) multiply(call, kept, e, *kept.rows, width_, up_, *kept.hidden, hidden_, true);
    call.device().gelu(rows * hidden_, kept.hidden->f32(), kept.active->f32());
    for (size_t e = 0; e < here_; ++e) multiply(call, kept, e, *kept.active, hidden_, down_, *out, width_, true);
    return out;
  }
  Tensor compute_backward(const Call& call, MoeRecord& kept) const {
    const size_t rows = kept.dispatch->received();
    kept.d_hidden = call.make(rows * hidden_);
    Tensor d_in = call.make(rows * width_);
    for (size_t e = 0; e < here_; ++e)
      multiply(call, kept, e, *kept.d_returned, width_, down_, *kept.d_hidden, hidden_, false);
    call.device().gelu_backward(rows * hidden_, kept.hidden->f32(), kept.d_hidden->f32(), kept.d_hidden->f32());
    kept.hidden.reset();
    for (size_t e = 0; e < here_; ++e) multiply(call, kept, e, *kept.d_hidden, hidden_, up_, *d_in, width_, false);
    return d_in;
  }
  /// y ← x · Wᵀ (transpose: W is out × in) or x · W (in × out), for the rows of one expert.
  static void multiply(const Call& call, const MoeRecord& kept, size_t expert, const Buffer& x, size_t in,
                       size_t weight, const Buffer& y, size_t out, bool transpose) {
    const Entries rows = kept.dispatch->experts()[expert];
    if (rows.count == 0) return;
    const ConstMatrix a{x.f32() + rows.first * in, in};
    const ConstMatrix b{call.weights + weight + expert * in * out, transpose ? in : out};
    const Matrix c{y.f32() + rows.first * out, out};
    call.device().gemm({.transpose_b = transpose, .m = rows.count, .n = out, .k = in, .a = a, .b = b, .c = c});
  }
  /// gradients[expert] ← … + dyᵀ · x / ranks of the expert axis.
  void add_product(const Call& call, const MoeRecord& kept, size_t expert, const Buffer& dy, size_t out,
                   const Buffer& x, size_t in, float* gradients) const {
    const Entries rows = kept.dispatch->experts()[expert];
    if (rows.count == 0) return;
    const ConstMatrix a{dy.f32() + rows.first * out, out}, b{x.f32() + rows.first * in, in};
    const Matrix c{gradients + expert * in * out, in};
    const float share = 1 / static_cast<float>(parallel_.ep().size());
    call.device().gemm(
        {.transpose_a = true, .m = out, .n = in, .k = rows.count, .a = a, .b = b, .c = c, .alpha = share, .beta = 1});
  }

  ParallelContext parallel_;
  MoeConfig config_;
  size_t width_, hidden_ = 0, here_ = 0;  // hidden: of this rank's part; here: experts of this rank
  Router router_;
  size_t up_ = 0, down_ = 0;
};

}  // namespace

std::unique_ptr<Layer> make_moe(Layout& layout, const std::string& prefix, size_t width, size_t hidden,
                                const Deviations& deviations, const MoeConfig& config, const ParallelContext& parallel,
                                Collectives& batch, ExpertLoad& load) {
  check_config(config, hidden, static_cast<size_t>(parallel.ep().size()), parallel.tp_size());
  return std::make_unique<Moe>(layout, prefix, width, hidden, deviations, config, parallel, batch, load);
}

}  // namespace tutti::train
