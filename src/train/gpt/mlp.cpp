// The MLP: y = row(gelu(column(x))). Megatron-LM's split: the hidden width is divided, so GELU needs no communication.
#include "train/gpt/layers.hpp"

namespace tutti::train {
namespace {

struct MlpRecord : Record {
  Tensor in, hidden, active;       // of forward; `in` as the tensor-parallel region sees it
  Tensor d_out, d_hidden, d_bias;  // of backward_input; d_bias: before leave's backward
};

class Mlp final : public Layer {
 public:
  Mlp(Layout& layout, const std::string& prefix, size_t width, size_t hidden, const Deviations& deviations,
      const ParallelContext& parallel)
      : parallel_(parallel),
        up_(column_linear(layout, prefix + ".up", width, hidden, 1, deviations.inner, parallel)),
        down_(row_linear(layout, prefix + ".down", hidden, width, deviations.last, parallel)) {}

  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    auto kept = std::make_unique<MlpRecord>();
    kept->in = parallel_.enter(call, x);
    const size_t rows = kept->in->count() / up_.in;
    kept->hidden = call.make(rows * up_.out);
    kept->active = call.make(rows * up_.out);
    up_.forward(call, rows, kept->in->f32(), kept->hidden->f32());
    call.device().gelu(rows * up_.out, kept->hidden->f32(), kept->active->f32());
    const Tensor partial = call.make(rows * down_.out);
    down_.multiply(call, rows, kept->active->f32(), partial->f32());
    Tensor y = parallel_.leave(call, partial);
    call.device().add_bias({y->count() / down_.out, down_.out}, y->f32(), call.weights + down_.bias);
    record = std::move(kept);
    return y;
  }

  Tensor backward_input(const Call& call, Record& record, const Tensor& dy) override {
    auto& kept = static_cast<MlpRecord&>(record);
    kept.d_bias = dy;
    kept.d_out = parallel_.leave_backward(call, dy);
    const size_t rows = kept.d_out->count() / down_.out;
    kept.d_hidden = call.make(rows * up_.out);
    down_.backward_input(call, rows, kept.d_out->f32(), kept.d_hidden->f32());
    call.device().gelu_backward(rows * up_.out, kept.hidden->f32(), kept.d_hidden->f32(), kept.d_hidden->f32());
    kept.hidden.reset();
    const Tensor dx = call.make(rows * up_.in);
    up_.backward_input(call, rows, kept.d_hidden->f32(), dx->f32());
    return parallel_.enter_backward(call, dx);
  }

  void backward_weight(const Call& call, Record& record, float* gradients) override {
    auto& kept = static_cast<MlpRecord&>(record);
    const size_t rows = kept.in->count() / up_.in;
    down_.backward_only_weight(call, rows, kept.active->f32(), kept.d_out->f32(), gradients);
    call.device().add_rows({kept.d_bias->count() / down_.out, down_.out}, kept.d_bias->f32(), gradients + down_.bias);
    up_.backward_weight(call, rows, kept.in->f32(), kept.d_hidden->f32(), gradients);
  }

 private:
  ParallelContext parallel_;
  Linear up_, down_;
};

}  // namespace

std::unique_ptr<Layer> make_mlp(Layout& layout, const std::string& prefix, size_t width, size_t hidden,
                                const Deviations& deviations, const ParallelContext& parallel) {
  return std::make_unique<Mlp>(layout, prefix, width, hidden, deviations, parallel);
}

}  // namespace tutti::train
