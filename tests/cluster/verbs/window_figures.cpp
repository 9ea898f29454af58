// Times of one-sided calls between two ranks, measured as perftest measures its own. Run by in_vm, under `tutti run`.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "windows/job.hpp"

namespace tutti {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Half a round trip: of 8 bytes and their signal, where ib_write_lat polls the bytes.
TEST(WindowFigures, Latency) {
  constexpr int kWarmUp = 200, kRounds = 2000;
  each_rank([](const Member& me) {
    Words words(me, 1, Memory::Ordinary);
    std::vector<double> seconds;
    const uint64_t word = 1;
    const auto put = [&] { OK(tuttiPutSignal(&word, sizeof word, me.next(), 0, 0, words.window, nullptr)); };
    for (int round = 0; round < kWarmUp + kRounds; ++round) {
      const double begin = now();
      if (me.rank == 0) put();
      OK(tuttiWaitSignal(me.next(), 0, 1, words.window, nullptr));
      if (me.rank != 0) put();
      if (round >= kWarmUp) seconds.push_back(now() - begin);
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    if (me.rank == 0) std::printf("median %.2f us\n", seconds[kRounds / 2] / 2 * 1e6);
  });
}

/// Puts of 1 MiB, then a flush. The other rank waits for a signal.
TEST(WindowFigures, Bandwidth) {
  constexpr size_t kWords = (1 << 20) / sizeof(uint64_t);
  constexpr int kWarmUp = 4, kPuts = 100;
  each_rank([](const Member& me) {
    Words words(me, kWords, Memory::Ordinary);
    if (me.rank == 0) {
      const std::vector<uint64_t> source(kWords, 7);
      const auto put = [&](int puts) {
        for (int i = 0; i < puts; ++i) OK(tuttiPut(source.data(), kWords * 8, 1, 0, words.window, nullptr));
        OK(tuttiFlush(1, words.window, nullptr));
      };
      put(kWarmUp);
      const double begin = now();
      put(kPuts);
      std::printf("streamed %.2f MiB/s\n", kPuts / (now() - begin));
      OK(tuttiSignal(1, 0, words.window, nullptr));
    } else if (me.rank == 1) {
      OK(tuttiWaitSignal(0, 0, 1, words.window, nullptr));
    }
  });
}

}  // namespace
}  // namespace tutti
