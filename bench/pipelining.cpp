// Do the rounds of a tree all-reduce overlap? Five ranks, a binomial tree, links that carry one message a millisecond.
//
// One round goes up and down the tree: 2·depth messages, one after the other. If every round waited for the one before,
// k rounds would take k times as long. If they overlap, each further round costs about one message's time.
//
//   build/release/bench/pipelining
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace {

constexpr int kRanks = 5, kRounds = 32, kRepeats = 5;
constexpr size_t kWindow = 1024;  // floats that a round moves if the largest message is TUTTI_MESSAGE, minus rounding

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s\n", tuttiGetLastError());
  std::exit(1);
}

/// Milliseconds of the slowest rank in one all-reduce of `rounds` rounds.
double time_of(std::vector<tuttiComm_t>& comms, int rounds) {
  const size_t count = kWindow * static_cast<size_t>(rounds);
  std::vector<double> times(comms.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < comms.size(); ++r) {
    ranks.emplace_back([&, r] {
      std::vector<float> data(count, 1.0f);
      check(tuttiBarrier(comms[r], nullptr));
      const auto start = std::chrono::steady_clock::now();
      check(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comms[r], nullptr));
      times[r] = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      const bool right = std::all_of(data.begin(), data.end(), [](float x) { return x == kRanks; });
      if (!right) std::fprintf(stderr, "wrong result\n"), std::exit(1);
    });
  }
  for (auto& rank : ranks) rank.join();
  return *std::max_element(times.begin(), times.end());
}

double median_of(std::vector<tuttiComm_t>& comms, int rounds) {
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) times.push_back(time_of(comms, rounds));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  setenv("TUTTI_FAULT", "delay=1ms", 1);
  setenv("TUTTI_ALGO", "all_reduce:binomial", 1);
  setenv("TUTTI_MESSAGE", "4224", 1);
  std::vector<tuttiComm_t> comms(kRanks);
  check(tuttiCommInitAll(comms.data(), kRanks));
  const double one = median_of(comms, 1), many = median_of(comms, kRounds);
  std::printf("%d ranks, binomial all-reduce, 1 ms a message and link; medians of %d\n", kRanks, kRepeats);
  std::printf("  1 round    %7.1f ms\n  %d rounds  %7.1f ms\n", one, kRounds, many);
  std::printf("  without overlap it would be %.1f ms; a further round costs %.2f ms\n", one * kRounds,
              (many - one) / (kRounds - 1));
  for (tuttiComm_t comm : comms) check(tuttiCommDestroy(comm));
  return 0;
}
