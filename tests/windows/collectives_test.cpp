// Collectives on buffers that are windows: peers have mapped them when the window was made.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tutti/tutti.h"
#include "windows/job.hpp"

namespace tutti {
namespace {

/// How often this process has memory of Tutti's mapped, its own and that of peers.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:tutti") != std::string::npos ? 1 : 0;
  return count;
}

std::string delivery(tuttiComm_t comm) {
  tuttiCallInfo info{.size = sizeof(tuttiCallInfo)};
  OK(tuttiCommGetLastCall(comm, &info));
  return info.delivery;
}

uint64_t value_of(int rank, uint64_t round, size_t i) {
  return (static_cast<uint64_t>(rank + 1) << 40) + (round << 32) + i;
}

/// ZeRO-3's use: each rank has a shard of a window, all-gathers it there, and reduce-scatters gradients of one. Rounds
/// have other values, so that nothing of an earlier one is taken for this one's.
void gather_and_scatter(const Member& me, size_t block, bool maps_nothing) {
  const auto ranks = static_cast<size_t>(me.ranks);
  Words weights(me, block * ranks, Memory::Mapped), gradients(me, block * ranks, Memory::Mapped);
  std::vector<uint64_t> sums(block);
  uint64_t* const mine = weights.data + block * static_cast<size_t>(me.rank);
  const std::vector<uint64_t> some(block);
  std::vector<uint64_t> all(block * ranks);
  OK(tuttiAllGather(some.data(), all.data(), block, tuttiUint64, me.comm,
                    nullptr));  // connects each rank with each other
  for (uint64_t round = 1; round <= 3; ++round) {
    std::fill_n(weights.data, block * ranks, ~uint64_t{0});
    for (size_t i = 0; i < block; ++i) mine[i] = value_of(me.rank, round, i);
    for (size_t i = 0; i < block * ranks; ++i) gradients.data[i] = value_of(me.rank, round, i);
    std::fill(sums.begin(), sums.end(), ~uint64_t{0});
    const int before = mappings();
    OK(tuttiAllGather(mine, weights.data, block, tuttiUint64, me.comm, nullptr));
    if (maps_nothing) {
      EXPECT_EQ(delivery(me.comm), "mapped");
    }
    OK(tuttiReduceScatter(gradients.data, sums.data(), block, tuttiUint64, tuttiSum, me.comm, nullptr));
    if (maps_nothing) {
      EXPECT_EQ(delivery(me.comm), "mapped");
      EXPECT_EQ(mappings(), before) << "round " << round;
    }
    for (size_t rank = 0, at = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < block; ++i, ++at) {
        ASSERT_EQ(weights.data[at], value_of(static_cast<int>(rank), round, i)) << "round " << round << ", " << at;
      }
    }
    for (size_t i = 0; i < block; ++i) {
      uint64_t sum = 0;
      const size_t at = block * static_cast<size_t>(me.rank) + i;
      for (int rank = 0; rank < me.ranks; ++rank) sum += value_of(rank, round, at);
      ASSERT_EQ(sums[i], sum) << "round " << round << ", " << i;
    }
  }
}

TEST(Windows, HoldBuffersOfCollectives) {
  each_rank([](const Member& me) {
    gather_and_scatter(me, 1, false);
    gather_and_scatter(me, 1001, false);
  });
}

/// What the window has mapped, the first call finds.
TEST(WindowsOfProcesses, CollectivesMapNothingAndReadInPlace) {
  const bool one_host = std::getenv("TUTTI_FORCE_REMOTE") == nullptr;
  each_rank([one_host](const Member& me) { gather_and_scatter(me, 128 << 10, one_host); });
}

}  // namespace
}  // namespace tutti
