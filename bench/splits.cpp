// What splits cost: time, descriptors and memory, and a small call on them beside one on their parent.
//
//   tutti run -n 4 -- splits [N]      N splits alive (200); prints a table in Markdown
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<double>(std::distance(begin(all), end(all)));
}

/// MiB; of pages that several processes share each one's part.
double memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  double kib = 0;
  for (std::string word; file >> word;) {
    if (word == "Pss:") file >> kib;
  }
  return kib / 1024;
}

void call(tutti::Communicator& comm) {
  const std::array<float, 1> in{1};
  std::array<float, 1> out{};
  comm.all_reduce(in, out);
}

/// µs of an all-reduce of 4 bytes on each of `comms` in turn; the least of 20 rounds.
double latency(std::vector<tutti::Communicator*> comms) {
  constexpr int kCalls = 500;
  double least = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) call(*comms[static_cast<size_t>(i) % comms.size()]);
    least = std::min(least, milliseconds_since(start) * 1e3 / kCalls);
  }
  return least;
}

struct Step {
  double fds, mib;

  static Step now() { return {descriptors(), memory()}; }
};

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200;
  tutti::Communicator world = tutti::Communicator::from_environment();
  call(world);
  const double on_world = latency({&world});
  const Step before = Step::now();
  std::vector<tutti::Communicator> splits;
  double splitting = 0, first_calls = 0;
  for (int i = 0; i < count; ++i) {
    auto start = Clock::now();
    splits.push_back(world.split(0, world.rank()));
    splitting += milliseconds_since(start);
    start = Clock::now();
    call(splits.back());
    first_calls += milliseconds_since(start);
  }
  const Step after = Step::now();
  std::vector<tutti::Communicator*> one{&splits.front()}, all;
  for (tutti::Communicator& split : splits) all.push_back(&split);
  const double on_one = latency(one), on_all = latency(all);
  const std::array<double, 4> mine{after.fds - before.fds, after.mib - before.mib, splitting / count,
                                   first_calls / count};
  std::vector<double> everyone(mine.size() * static_cast<size_t>(world.size()));
  world.all_gather(mine, everyone);
  double fds = 0, mib = 0;
  for (size_t r = 0; r < everyone.size(); r += mine.size()) {
    fds = std::max(fds, everyone[r]);
    mib += everyone[r + 1];
  }
  if (world.rank() == 0) {
    fmt::print(
        "| ranks | splits | a split, ms | its first call, ms | descriptors of a rank | memory of all, MiB | a call: "
        "on the parent, µs | on one split | on all in turn |\n|---|---|---|---|---|---|---|---|---|\n");
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.0f} | {:.0f} | {:.2f} | {:.2f} | {:.2f} |\n", world.size(), count,
               mine[2], mine[3], fds, mib, on_world, on_one, on_all);
  }
}
