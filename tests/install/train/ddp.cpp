// Distributed data parallel for a model of your own: the layer knows parameters and gradients as spans, not your model.
// Here the model is four layers whose outputs are added, y = Σ w · x, and is to be 1 on all ranks' data.
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
  const DataParallelOptions options{.mode = DataParallelMode::Ddp, .first_bucket = 4096, .bucket = 8192};
  const auto ddp = make_data_parallel(options, ledger, {mesh.replicas(), mesh.expert_replicas()});
  ddp->attach(layers);
  for (size_t l = 0; l < kLayers; ++l) ddp->load(l, initial_values(layouts[l], 1));
  ddp->broadcast_parameters();

  double first = 0, last = 0;
  for (int step = 1; step <= 50; ++step) {
    ddp->start_step();
    float y = -1;  // what it should be is 1
    for (size_t l = 0; l < kLayers; ++l) {
      for (size_t i = 0; i < kWidth; ++i) y += layers[l].weights.f32()[i] * input(world.rank(), step, l, i);
    }
    for (size_t l = kLayers; l-- > 0;) {  // backward: while it goes on, buckets that are full are on the wire
      for (size_t i = 0; i < kWidth; ++i) layers[l].gradients.f32()[i] += 2 * y * input(world.rank(), step, l, i);
      ddp->gradients_ready(l, true);
    }
    ddp->finish_backward();
    ddp->step({.rate = 0.001f, .step = step});
    last = mesh.replicas().sum(Purpose::Loss, double{y} * double{y}) / world.size();
    if (step == 1) first = last;
  }
  const Count& sent = counters[Purpose::Gradients];
  std::cout << "rank " << world.rank() << " of " << world.size() << ": the error fell " << (last < 0.1 * first)
            << ", gradients " << sent.sent / 50 << " bytes a step in " << sent.calls / 50 << " buckets\n";
  world.close();
} catch (const tutti::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
