// What the training layer costs beside the mathematics: steps of one rank, whose device adds up the time of its calls.
//
// math     the model and the optimizer
// moving   copies, zeros and uploads: the layer asks for them, so they are counted as its cost too
// layer    the rest: data, units, records, memory, hooks, counters, the hand-over to ZeRO's streams, reading the clock
//
//   train_overhead [--steps N]      prints a table in Markdown
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "bench/timed_device.hpp"
#include "tutti/train/trainer.hpp"

namespace {

using namespace tutti;         // NOLINT: a program
using namespace tutti::train;  // NOLINT

constexpr int kWarm = 3;  // steps: memory is taken, pages are touched

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const char* name, const TrainOptions& options, int steps) {
  std::vector<Communicator> world = Communicator::all_local(1);
  TimedDevice::Spent spent;
  Trainer trainer(world[0], options, Corpus::read(""), std::make_unique<TimedDevice>(make_host_device(), spent));
  std::vector<double> seconds, math, moving, layer;
  for (int step = 0; step < kWarm + steps; ++step) {
    spent = {};
    const double whole = trainer.step().seconds;
    if (step < kWarm) continue;
    seconds.push_back(whole * 1e3);
    math.push_back(100 * spent.math / whole);
    moving.push_back(100 * spent.moving / whole);
    layer.push_back(100 * (whole - spent.math - spent.moving) / whole);
  }
  const GptConfig& m = options.model;
  fmt::print("| {} | {} x {}, {} x {} | {} | {:.1f} | {:.2f} % | {:.2f} % | {:.2f} % | **{:.2f} %** |\n", name,
             m.layers, m.width, options.batch, m.length, spent.calls, median(seconds), median(math), median(moving),
             median(layer), median(moving) + median(layer));
}

}  // namespace

int main(int argc, char** argv) try {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::atoi(argv[2]) : 25;
  fmt::print(
      "| mode | layers x width, batch x length | calls | step, ms | math | moving | layer | moving + layer "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (const DataParallelMode mode : {DataParallelMode::Ddp, DataParallelMode::Zero1, DataParallelMode::Zero3}) {
    for (const size_t width : {64, 128, 256}) {
      TrainOptions options;
      options.model.width = width;
      options.data_parallel.mode = mode;
      measure(mode == DataParallelMode::Ddp     ? "DDP"
              : mode == DataParallelMode::Zero1 ? "ZeRO-1"
                                                : "ZeRO-3",
              options, steps);
    }
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "train_overhead: {}\n", error.what());
  return 1;
}
