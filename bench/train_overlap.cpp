// DDP's overlap of gradient communication with the backward pass, over links of an artificial speed: the fault
// transport lets each link pass so many bytes a second. Units compute nothing but sleep, as a host does whose GPU
// computes, because ranks and links share this machine's cores otherwise. No optimizer.
//
// compute        a step of one rank: forward and backward
// communication  the same step's all-reduces, one after another, with nothing to compute
// step           both together
//
//   TUTTI_FAULT=rate=2GB/s train_overlap [--ranks N] [--steps N] [--mib GRADIENTS]      prints a table in Markdown
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "tutti/train/executor.hpp"

namespace {

using namespace tutti;         // NOLINT: a program
using namespace tutti::train;  // NOLINT

constexpr size_t kLayers = 12;
constexpr double kForward = 1.0 / 3;  // of the computation: the backward pass costs twice as much

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// So many parameters.
class Weights final : public Unit {
 public:
  explicit Weights(size_t index, size_t count) : Unit("weights") {
    for (int part = 0; part < 4; ++part) {
      layout_.add(fmt::format("weights.{}.{}", index, part), {count / 4}, Initial::one());
    }
  }
  size_t input_count(size_t /*tokens*/) const override { return 0; }
  size_t output_count(size_t /*tokens*/) const override { return 0; }
  Tensor forward(const Call& /*call*/, const Tensor& /*x*/, std::unique_ptr<Record>& record) override {
    record = std::make_unique<Record>();
    return nullptr;
  }
  Tensor backward_input(const Call& /*call*/, Record& /*record*/, const Tensor& /*dy*/) override { return nullptr; }
  void backward_weight(const Call& /*call*/, Record& /*record*/, float* /*gradients*/) override {}
};

struct Conditions {
  int ranks = 2, steps = 15;
  size_t elements = 0;  // of the gradients
  size_t bucket = size_t{25} << 20;
  double compute = 0;  // seconds of a step
};

struct Measured {
  double step = 0, hidden = 0;  // seconds, share of the communication
};

/// One rank's fastest step: what else the machine does only adds time. All ranks begin each step together.
Measured run_rank(Communicator* comm, const Conditions& setting) {
  const std::unique_ptr<Device> device = make_host_device();
  Ledger ledger(*device);
  Counters counters;
  Collectives world, alone;
  if (comm != nullptr) world = Collectives(comm->split(0, comm->rank()), counters);
  Model units;
  std::vector<UnitState> states;
  for (size_t i = 0; i < kLayers; ++i) {
    std::unique_ptr<Unit> unit = std::make_unique<Weights>(i, setting.elements / kLayers);
    const double pace = setting.compute * kForward / kLayers;  // of each pass: F, B and W
    units.push_back(pace > 0 ? make_paced(std::move(unit), pace) : std::move(unit));
  }
  for (const auto& unit : units) states.push_back({.layout = &unit->layout()});
  DataParallelOptions options;
  options.bucket = setting.bucket;
  const auto ddp = make_data_parallel(options, ledger, {world, alone, 0});
  ddp->attach(states);
  Boundary none;
  Executor executor({ledger, units, states, *ddp, none}, {{0, kLayers}}, false);
  const std::vector<MicroBatch> batches(1);
  Measured best{1e9, 0};
  for (int step = 0; step <= setting.steps; ++step) {
    ddp->start_step();
    world.sum(Purpose::Setup, 0);
    const double start = now();
    executor.run(one_stage_schedule(1), batches);
    if (step == 0) continue;  // warm-up: links, plans, page faults
    const double seconds = now() - start;
    if (seconds >= best.step) continue;
    const auto [busy, waited] = ddp->overlap();
    best = {seconds, busy > 0 ? 1 - std::min(1.0, waited / busy) : 0};
  }
  return best;
}

/// The slowest rank's.
Measured run(const Conditions& setting) {
  if (setting.ranks == 1) return run_rank(nullptr, setting);
  Measured most;
  std::mutex mutex;
  std::vector<Communicator> world = Communicator::all_local(setting.ranks);
  std::vector<std::thread> threads;
  for (Communicator& comm : world) {
    threads.emplace_back([&] {
      const Measured mine = run_rank(&comm, setting);
      const std::scoped_lock lock(mutex);
      if (mine.step > most.step) most = mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return most;
}

int option(int argc, char** argv, const char* name, int otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atoi(argv[i + 1]);
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) try {
  Conditions setting;
  setting.ranks = option(argc, argv, "--ranks", 2);
  setting.steps = option(argc, argv, "--steps", 15);
  const int mib = option(argc, argv, "--mib", 96);
  setting.elements = (static_cast<size_t>(mib) << 20) / sizeof(float);
  setting.bucket = static_cast<size_t>(option(argc, argv, "--bucket", 25)) << 20;
  const char* const faults = std::getenv("TUTTI_FAULT");
  const double first = run(setting).step;
  const double bytes =
      2.0 * (setting.ranks - 1) / setting.ranks * static_cast<double>(setting.elements * sizeof(float));
  fmt::print(
      "{} ranks, {} MiB of gradients in f32, TUTTI_FAULT={}: communication alone {:.1f} ms, {:.2f} GB/s a rank\n\n",
      setting.ranks, mib, faults == nullptr ? "" : faults, first * 1e3, bytes / first / 1e9);
  fmt::print(
      "| communication / compute | compute, ms | communication, ms | step, ms | step / max of both | least possible | "
      "hidden |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const double ratio : {0.25, 0.5, 0.67, 1.0, 2.0, 4.0}) {
    // One after another, because what else the machine does changes.
    setting.compute = first / ratio;
    const Measured both = run(setting);
    Conditions alone = setting;
    alone.compute = 0;
    const double communication = run(alone).step;
    alone.compute = setting.compute;
    alone.ranks = 1;
    const double compute = run(alone).step;
    const double most = std::max(compute, communication);
    // Communication cannot begin before the forward pass and the first unit's backward pass are over.
    const double least = std::max(compute, compute * (kForward + (1 - kForward) / kLayers) + communication);
    fmt::print("| {:.2f} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | {:.2f} | {:.0f} % |\n", communication / compute,
               compute * 1e3, communication * 1e3, both.step * 1e3, both.step / most, least / most, 100 * both.hidden);
    std::fflush(stdout);
  }
} catch (const std::exception& error) {
  std::fputs(error.what(), stderr);
  return 1;
}
