// Pipeline schedules in real runs with calibrated stages: the bubble on the timeline beside its formula, and the peak
// of activations in flight by the ledger. Each F, B and W sleeps a given time, because the ranks of a pipeline would
// otherwise share this machine's cores; messages, streams, executor and memory are those of `tutti train`.
//
//   train_pipeline [--pace MILLISECONDS] [--steps N]        prints a table in Markdown; fails where the medians of the
//                                                           bubble and of its formula differ by more than 5 points
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "bench/holding_pipeline.hpp"

namespace {

using namespace tutti;         // NOLINT: a program
using namespace tutti::train;  // NOLINT

constexpr double kMaxApart = 0.05;  // bubbles

struct Row {
  std::vector<double> bubbles, formulas;  // [step]
  size_t peak = 0;                        // records, of the rank that has most
};

Row measure(ScheduleKind kind, const PipelineShape& shape, double pace, int steps) {
  Row row;
  std::vector<size_t> peaks(static_cast<size_t>(shape.ranks));
  std::vector<Communicator> world = Communicator::all_local(shape.ranks);
  std::vector<std::thread> threads;
  for (Communicator& comm : world) {
    threads.emplace_back([&] {
      HoldingPipeline pipeline(comm, kind, shape, pace / shape.chunks);
      for (int step = 0; step < steps; ++step) {
        const Timeline timeline = pipeline.step();
        if (comm.rank() != 0) continue;
        row.bubbles.push_back(timeline.bubble());
        row.formulas.push_back(timeline.formula());
      }
      peaks[static_cast<size_t>(comm.rank())] = pipeline.ledger.peak(Kind::Activations) / kHeldBytes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  row.peak = *std::max_element(peaks.begin(), peaks.end());
  return row;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int option(int argc, char** argv, const char* name, int otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atoi(argv[i + 1]);
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) try {
  const double pace = option(argc, argv, "--pace", 10) * 1e-3;
  const int steps = option(argc, argv, "--steps", 5);
  const std::vector<std::pair<ScheduleKind, PipelineShape>> cases = {
      {ScheduleKind::Naive, {4, 8, 1}},       {ScheduleKind::GPipe, {4, 8, 1}},
      {ScheduleKind::OneFOneB, {4, 8, 1}},    {ScheduleKind::Interleaved, {4, 8, 2}},
      {ScheduleKind::Interleaved, {4, 8, 4}}, {ScheduleKind::ZeroBubble, {4, 8, 1}},
      {ScheduleKind::GPipe, {2, 8, 1}},       {ScheduleKind::OneFOneB, {2, 8, 1}},
      {ScheduleKind::Interleaved, {2, 8, 2}}, {ScheduleKind::ZeroBubble, {2, 8, 1}},
      {ScheduleKind::GPipe, {4, 16, 1}},      {ScheduleKind::OneFOneB, {4, 16, 1}},
      {ScheduleKind::ZeroBubble, {4, 16, 1}}, {ScheduleKind::OneFOneB, {8, 16, 1}},
  };
  bool all_near = true;
  fmt::print(
      "| schedule | p | m | v | formula | %  | measured, least % | median % | most % | records in flight, of a rank "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [kind, shape] : cases) {
    const Row row = measure(kind, shape, pace, steps);
    fmt::print("| {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} |\n", name_of(kind), shape.ranks,
               shape.micro_batches, shape.chunks, bubble_text(kind), 100 * median(row.formulas),
               100 * *std::min_element(row.bubbles.begin(), row.bubbles.end()), 100 * median(row.bubbles),
               100 * *std::max_element(row.bubbles.begin(), row.bubbles.end()), row.peak);
    std::fflush(stdout);
    const double apart = median(row.bubbles) - median(row.formulas);
    if (std::abs(apart) <= kMaxApart) continue;
    fmt::print(stderr, "train_pipeline: {} with p = {}, m = {} is {:.1f} points from its formula\n", name_of(kind),
               shape.ranks, shape.micro_batches, 100 * apart);
    all_near = false;
  }
  return all_near ? 0 : 1;
} catch (const std::exception& error) {
  std::fputs(error.what(), stderr);
  return 1;
}
