// ZeRO-3 for a model of your own: weights, gradients and Adam's state are sharded. A layer's weights are whole from
// parameters_needed to parameters_done, and its gradients from gradients_needed to gradients_ready.
#include <cmath>
#include <iostream>
#include <tutti/train/data_parallel.hpp>
#include <tutti/train/mesh.hpp>

using namespace tutti::train;
constexpr size_t kLayers = 4, kWidth = 1001;

float input(int rank, int step, size_t layer, size_t i) {  // each rank's data are its own
  return (1 + std::sin(static_cast<float>((rank + 1) * step) + static_cast<float>(layer * kWidth + i)) / 4) / 64;
}

int main() try {
  auto world = tutti::Communicator::from_environment();
  Counters counters;
  Mesh mesh(world, {.dp = world.size()}, counters);
  const auto device = make_host_device();
  Ledger ledger(*device);
  std::vector<Layout> layouts(kLayers);
  std::vector<UnitState> layers;
  for (size_t l = 0; l < kLayers; ++l) {
    layouts[l].add("layer." + std::to_string(l), {kWidth}, Initial::normal(0.1f));
    layers.push_back({.layout = &layouts[l]});
  }
  const DataParallelOptions options{.mode = DataParallelMode::Zero3};
  const auto zero = make_data_parallel(options, ledger, {mesh.replicas(), mesh.expert_replicas()});
  zero->attach(layers);
  for (size_t l = 0; l < kLayers; ++l) zero->load(l, initial_values(layouts[l], 1));
  double first = 0, last = 0;
  for (int step = 1; step <= 50; ++step) {
    zero->start_step();
    float y = -1;  // what it should be is 1
    for (size_t l = 0; l < kLayers; ++l) {
      zero->parameters_needed(l, Pass::Forward);
      if (l + 1 < kLayers) zero->parameters_next(l + 1);  // its weights are on their way while this layer computes
      for (size_t i = 0; i < kWidth; ++i) y += layers[l].weights.f32()[i] * input(world.rank(), step, l, i);
      zero->parameters_done(l, Pass::Forward);
    }
    for (size_t l = kLayers; l-- > 0;) {  // this model's backward pass needs no weights
      zero->gradients_needed(l);
      for (size_t i = 0; i < kWidth; ++i) layers[l].gradients.f32()[i] += 2 * y * input(world.rank(), step, l, i);
      zero->gradients_ready(l, true);
    }
    zero->finish_backward();
    zero->step({.rate = 0.001f, .step = step});
    last = mesh.replicas().sum(Purpose::Loss, double{y} * double{y}) / world.size();
    if (step == 1) first = last;
  }
  const size_t held = ledger.held(Kind::Weights) + ledger.held(Kind::Gradients) + ledger.held(Kind::Optimizer);
  if (world.rank() == 0) {
    std::cout << world.size() << " ranks: the error " << (last < 0.1 * first ? "fell" : "did not fall")
              << "; rank 0 holds " << held << " of " << 16 * kLayers * kWidth << " bytes of state\n";
  }
  world.close();
} catch (const tutti::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
