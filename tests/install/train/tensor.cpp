// Tensor parallelism for layers of one's own: an MLP whose hidden width is divided over all ranks, beside the same MLP
// whole. One sum over the ranks forward, one backward.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tutti/train/linear.hpp"

using namespace tutti::train;

constexpr size_t kRows = 4, kWidth = 8, kHidden = 24;
struct Mlp {
  explicit Mlp(const ParallelContext& context)
      : parallel(context),
        up(column_linear(layout, "up", kWidth, kHidden, 1, 0.5f, context)),
        down(row_linear(layout, "down", kHidden, kWidth, 0.5f, context)),
        weights(initial_values(layout, 1)) {}  // this rank's piece of the same numbers, however many ranks there are
  /// y of x, and then dx of dy = y.
  std::vector<float> run(Ledger& ledger, const std::vector<float>& input) const {
    const MicroBatch batch;
    const Call call{ledger, batch, weights.data()};
    Device& device = ledger.device();
    const Tensor x = call.make(kRows * kWidth), hidden = call.make(kRows * up.out), active = call.make(kRows * up.out);
    device.upload(x->f32(), input.data(), x->bytes());
    up.forward(call, kRows, parallel.enter(call, x)->f32(), hidden->f32());
    device.gelu(hidden->count(), hidden->f32(), active->f32());
    const Tensor partial = call.make(kRows * kWidth), partial_dx = call.make(kRows * kWidth);
    down.multiply(call, kRows, active->f32(), partial->f32());
    const Tensor y = parallel.leave(call, partial);  // the all-reduce
    device.add_bias({kRows, kWidth}, y->f32(), call.weights + down.bias);
    down.backward_input(call, kRows, parallel.leave_backward(call, y)->f32(), active->f32());
    device.gelu_backward(hidden->count(), hidden->f32(), active->f32(), active->f32());
    up.backward_input(call, kRows, active->f32(), partial_dx->f32());
    const Tensor dx = parallel.enter_backward(call, partial_dx);  // the other
    std::vector<float> result(2 * kRows * kWidth);
    device.download(result.data(), y->f32(), y->bytes());
    device.download(result.data() + kRows * kWidth, dx->f32(), dx->bytes());
    return result;
  }
  Layout layout;
  ParallelContext parallel;
  Linear up, down;
  std::vector<float> weights;
};
int main() try {
  auto world = tutti::Communicator::from_environment();
  Counters counters;
  Collectives tp(world.split(0, world.rank()), counters), absent;
  const auto device = make_host_device();
  Ledger ledger(*device);
  std::vector<float> x(kRows * kWidth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const auto split = Mlp({tp, false, absent, absent}).run(ledger, x), whole = Mlp({}).run(ledger, x);
  float most = 0;
  for (size_t i = 0; i < whole.size(); ++i) most = std::fmax(most, std::fabs(split[i] - whole[i]));
  if (world.rank() == 0) std::printf("%d ranks: tensor %s\n", tp.size(), most < 1e-4f ? "agrees" : "differs");
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
