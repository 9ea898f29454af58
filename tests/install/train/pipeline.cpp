// Pipeline parallelism for a model of one's own: rank r multiplies by its weight, so all ranks in a row learn y = 3x. A
// unit says how to go forward and back; the schedule, the messages and the micro-batches are the library's.
#include "tutti/train/pipeline.hpp"
#include <cstdio>
using namespace tutti::train;
struct Kept : Record {
  Kept(float in, float d_out) : x(in), dy(d_out) {}
  float x, dy;
};
struct Stage : Unit {  // the first one makes its own x; the last one's loss is (y − 3x)² / 2
  Stage(int rank, int ranks) : Unit("stage"), first(rank == 0), last(rank + 1 == ranks) {
    layout_.add("w." + std::to_string(rank), {1}, Initial::one());
  }
  size_t input_count(size_t) const override { return first ? 0 : 1; }
  size_t output_count(size_t) const override { return last ? 0 : 1; }
  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    const float in = first ? 0.5f : *x->f32(), y = call.weights[0] * in;  // host memory; on a GPU these were kernels
    record = std::make_unique<Kept>(in, y - 3 * 0.5f);
    return last ? nullptr : tensor(call, y);
  }
  Tensor backward_input(const Call& call, Record& record, const Tensor& dy) override {
    float& mine = static_cast<Kept&>(record).dy;
    if (!last) mine = *dy->f32();
    return first ? nullptr : tensor(call, call.weights[0] * mine);
  }
  void backward_weight(const Call&, Record& record, float* gradients) override {
    gradients[0] += static_cast<Kept&>(record).dy * static_cast<Kept&>(record).x;
  }
  static Tensor tensor(const Call& call, float value) {
    Tensor made = call.make(1);
    *made->f32() = value;
    return made;
  }
  bool first, last;
};
int main() {
  tutti::Communicator world = tutti::Communicator::from_environment();
  Counters counters;
  Collectives pp(world.split(0, world.rank()), counters), alone;
  const auto device = make_host_device();
  Ledger ledger(*device);
  Model units;
  units.push_back(std::make_unique<Stage>(world.rank(), world.size()));
  const std::vector<Chunk> chunks{{0, 1}};  // of units on this rank
  std::vector<UnitState> states{{.layout = &units[0]->layout()}};
  const auto optimizer = make_data_parallel({}, ledger, {alone, alone});
  optimizer->attach(states);
  optimizer->load(0, initial_values(units[0]->layout(), 1));
  const PipelineShape shape{.ranks = world.size(), .micro_batches = 8};
  const Schedule schedule = make_schedule(ScheduleKind::ZeroBubble, shape, world.rank());
  PipelineBoundary boundary(pp, shape, ledger, counters);
  Executor executor({ledger, units, states, *optimizer, boundary}, chunks, false);
  const std::vector<MicroBatch> batches(8, {.sequences = 1, .length = 1});
  for (int step = 1; step <= 600; ++step) {
    optimizer->start_step();
    boundary.start_step(schedule, units, chunks, batches);
    executor.run(schedule, batches);
    optimizer->step({.rate = 0.01f, .scale = 1.0f / 8, .step = step});
  }
  float product = *states[0].weights.f32();
  world.all_reduce(std::span(&product, 1), tutti::Op::Prod);
  if (world.rank() == 0) std::printf("%d stages: the product of the weights is %.2f\n", world.size(), product);
}
