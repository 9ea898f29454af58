// Distributed data parallelism for a model of one's own: y = w·x, learnt from y = 3x. Each rank has other data; DDP
// averages the gradients, so all ranks take the same step. Needs only flat gradients and four hooks.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tutti/train/data_parallel.hpp"
#include "tutti/train/mesh.hpp"

using namespace tutti::train;

int main() try {
  tutti::Communicator world = tutti::Communicator::from_environment();
  Counters counters;
  Mesh mesh(world, {.dp = world.size()}, counters);
  const auto device = make_host_device();
  Ledger ledger(*device);

  Layout layout;
  layout.add("w", {1}, Initial::zero());
  std::vector<UnitState> units{{.layout = &layout}};
  const auto ddp = make_data_parallel({}, ledger, {mesh.replicas(), mesh.expert_replicas()});
  ddp->attach(units);  // from here on units[0] has memory for weights and gradients
  ddp->load(0, initial_values(layout, 1));
  ddp->broadcast_parameters();

  for (int step = 1; step <= 400; ++step) {
    ddp->start_step();
    const float x = std::sin(static_cast<float>(step * world.size() + world.rank()));  // this rank's sample
    float w = 0;
    device->download(&w, units[0].weights.data, sizeof w);
    const float gradient = (w * x - 3 * x) * x;
    device->upload(units[0].gradients.data, &gradient, sizeof gradient);
    ddp->gradients_ready(0, true);  // launches the all-reduce; other units would compute on
    ddp->finish_backward();
    ddp->step({.rate = 0.05f, .step = step});
  }
  std::vector<float> learnt(1);
  ddp->read(0, learnt);
  if (world.rank() == 0) std::printf("%d ranks: the weight is %.2f\n", world.size(), static_cast<double>(learnt[0]));
  return 0;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
