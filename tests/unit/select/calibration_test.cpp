#include "select/calibration.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "select/plausible.hpp"

namespace tutti::select {
namespace {

/// Of an ordinary machine: copies of 10 GB/s, by the kernel of 8 GB/s and 1 µs; 32 MiB of cache.
Calibration ordinary() {
  Calibration m{.near_line = 50e-9, .far_line = 100e-9, .thread_switch = 1e-6};
  for (size_t i = 0; i < Calibration::kSizes.size(); ++i) {
    const auto bytes = static_cast<double>(Calibration::kSizes[i]);
    m.write[i] = m.both[i] = m.read[0][i] = m.read[1][i] = m.read[2][i] = m.fold[i] = m.stored[i] = m.streamed[i] =
        m.write_past[i] = m.read_past[i] = bytes / 10e9;
    m.kernel[i] = 1e-6 + bytes / 8e9;
  }
  m.tiled = {300e-6, 200e-6, 250e-6};
  m.caches = {1 << 20, 32 << 20, 1};
  m.beyond_stored = 4e-10;
  m.beyond_streamed = 3e-10;
  m.took = 0.03;
  return m;
}

TEST(Calibration, IsReadAsItWasWritten) {
  const auto read = parse_calibration(to_text(ordinary()));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(ordinary()));
  EXPECT_FALSE(parse_calibration(""));
  EXPECT_FALSE(parse_calibration("{}"));
  EXPECT_FALSE(parse_calibration("{\"format\":\"tutti-calibration 4\",\"near_line\":[]}"));
}

TEST(Calibration, KnowsTheFastestCopyOfAnyLength) {
  Calibration m = ordinary();
  EXPECT_NEAR(fastest_copy(m), 10e9, 1);
  m.read[2][1] = static_cast<double>(Calibration::kSizes[1]) / 31e9;
  EXPECT_NEAR(fastest_copy(m), 31e9, 1);
  m.kernel = {};  // not permitted
  m.stored[0] = 1e-9;
  EXPECT_NEAR(fastest_copy(m), 31e9, 1) << "a copy of a core's own data is no message";
}

TEST(Calibration, TakesTheBetterOfTwoLooks) {
  Calibration slow = ordinary();  // in a slow moment
  for (auto* times : {&slow.write, &slow.write_past, &slow.read_past, &slow.both, &slow.read[0], &slow.read[1],
                      &slow.read[2], &slow.kernel, &slow.fold, &slow.stored, &slow.streamed}) {
    for (double& seconds : *times) seconds *= 5;
  }
  for (double* figure : {&slow.near_line, &slow.far_line, &slow.thread_switch, &slow.beyond_stored,
                         &slow.beyond_streamed, &slow.tiled[0], &slow.tiled[1], &slow.tiled[2]}) {
    *figure *= 5;
  }
  for (const auto& [a, b] : {std::pair(slow, ordinary()), std::pair(ordinary(), slow)}) {
    Calibration best = best_of(a, b);
    EXPECT_EQ(best.looks, 2u);
    EXPECT_NEAR(best.took, 0.06, 1e-9);
    best.looks = 1;
    best.took = ordinary().took;
    EXPECT_EQ(best, ordinary());
    EXPECT_EQ(implausible(best), "");
  }
  Calibration partly = slow;  // no CMA was permitted, and there was no time for copies beyond the caches
  partly.kernel = {};
  partly.beyond_stored = 0;
  EXPECT_EQ(best_of(partly, ordinary()).kernel, ordinary().kernel);
  EXPECT_EQ(best_of(ordinary(), partly).beyond_stored, ordinary().beyond_stored);
}

TEST(Calibration, ReplacesTheFiguresOfLocalLinks) {
  MachineConstants constants;
  apply(ordinary(), constants);
  EXPECT_NEAR(constants.shm_alpha, 140e-9, 1e-12);
  EXPECT_NEAR(constants.shm_beta, 2e-10, 1e-13) << "written and read";
  EXPECT_NEAR(constants.local_beta, 1e-10, 1e-13);
  EXPECT_NEAR(constants.fold_gamma, 0, 1e-15) << "as fast as a copy";
  EXPECT_NEAR(constants.context_switch, 1e-6, 1e-12);
  EXPECT_EQ(constants.cma_transfer_from, MachineConstants{}.cma_transfer_from)
      << "equal on all ranks: agreed on instead";
}

TEST(Calibration, StoresPastTheCacheFollowItsSizeAndWhetherTheyPay) {
  const MachineConstants table;
  MachineConstants constants;
  Calibration m = ordinary();
  m.caches = {1 << 20, 72 << 20, 2};  // twice the table's, two of them
  apply(m, constants);
  EXPECT_EQ(constants.nontemporal_from, 2 * table.nontemporal_from);
  EXPECT_EQ(constants.nontemporal_all_reduce_from, 2 * table.nontemporal_all_reduce_from);
  EXPECT_EQ(constants.last_caches, 2u);
  m.beyond_streamed = 2 * m.beyond_stored;
  apply(m, constants);
  EXPECT_GT(constants.nontemporal_from, uint64_t{1} << 40) << "never";
  constants = table;
  m = ordinary();
  m.caches = {};
  apply(m, constants);
  EXPECT_EQ(constants.nontemporal_from, table.nontemporal_from) << "unknown sizes";
}

TEST(Calibration, TilesAndWaysToCopyAreTheFastestOnes) {
  MachineConstants constants;
  Calibration m = ordinary();
  apply(m, constants);
  EXPECT_EQ(constants.cma_tiles, 256u << 10);
  EXPECT_EQ(constants.copy_short, 1u) << "memcpy, where all are equal";
  m.tiled = {100e-6, 200e-6, 250e-6};
  m.read[1][0] /= 2;
  m.read[2][3] /= 2;
  m.read[2][1] /= 1.02;
  apply(m, constants);
  EXPECT_EQ(constants.cma_tiles, 64u << 10);
  EXPECT_EQ(constants.copy_short, 2u);
  EXPECT_EQ(constants.copy_middle, 1u) << "2 % are noise";
  EXPECT_EQ(constants.copy_long, 1u) << "what is fast in the caches says little of what is longer";
}

TEST(Calibration, TheKernelsCopyIsUsedFromWhereItIsFaster) {
  Calibration m = ordinary();
  EXPECT_EQ(shifts_of(m).cma, -1) << "from some 20 KB on";
  EXPECT_FALSE(shifts_of(m).no_cma);
  for (double& seconds : m.kernel) seconds *= 3;
  EXPECT_TRUE(shifts_of(m).no_cma);
  m = ordinary();
  for (double& seconds : m.kernel) seconds += 3e-6;
  EXPECT_EQ(shifts_of(m).cma, 0) << "from some 55 KB on";
  for (double& seconds : m.kernel) seconds -= 3.9e-6;
  EXPECT_EQ(shifts_of(m).cma, -2) << "always, but no further than that";
  m.kernel = {};
  EXPECT_EQ(shifts_of(m).cma, 0) << "not permitted";
  EXPECT_FALSE(shifts_of(m).no_cma);
}

TEST(Calibration, TilesOfTheKernelAreHeldAgainstStagedBlocksThatAreFolded) {
  Calibration m = ordinary();
  const double folds = std::sqrt((staged(m, 2) + m.fold[2] - m.read[0][2]) * (staged(m, 3) + m.fold[3] - m.read[0][3]));
  m.tiled = {2 * folds, 1.06 * folds, 3 * folds};
  EXPECT_FALSE(shifts_of(m).no_cma_folds) << "the best tile counts, and a few percent are noise";
  m.tiled = {2 * folds, 1.09 * folds, 3 * folds};
  EXPECT_TRUE(shifts_of(m).no_cma_folds);
  EXPECT_FALSE(shifts_of(m).no_cma) << "copies are another matter";
  m.tiled = {};
  EXPECT_FALSE(shifts_of(m).no_cma_folds) << "not permitted";
}

TEST(Calibration, LengthsFollowTheCachesAndWhatIsCopiedDuringAMessage) {
  Calibration m = ordinary();
  EXPECT_EQ(shifts_of(m).caches, 0);
  EXPECT_EQ(shifts_of(m).wait, -1) << "1.4 KB in 140 ns, the table's 2.5 KB in 250 ns";
  m.caches.lasts = 4;
  EXPECT_EQ(shifts_of(m).caches, 2);
  m.caches = {};
  EXPECT_EQ(shifts_of(m).caches, 0) << "unknown";
  for (double& seconds : m.write) seconds /= 8;
  EXPECT_EQ(shifts_of(m).wait, 2);
}

TEST(Calibration, MessagesAreStagedByTheStoresThatRanksChoose) {
  Calibration m = ordinary();
  constexpr size_t kLong = 2;  // 512 KiB
  const auto bytes = static_cast<double>(Calibration::kSizes[kLong]);
  m.write_past[kLong] = 0.01e-9 * bytes;  // faster by less than the 0.2 ns/B from which on ranks stream
  EXPECT_DOUBLE_EQ(staged(m, kLong), m.write[kLong] + m.read[0][kLong]);
  m.write[kLong] = 0.35e-9 * bytes;  // readers are far: ranks stream, whatever the streaming itself takes
  EXPECT_DOUBLE_EQ(staged(m, kLong), m.write_past[kLong] + m.read_past[kLong]);
  MachineConstants constants;
  apply(m, constants);
  EXPECT_DOUBLE_EQ(constants.shm_beta, 0.01e-9 + 0.1e-9);
}

TEST(Calibration, FiguresOfABusyMachineAreRefused) {
  EXPECT_EQ(implausible(ordinary()), "");
  Calibration m = ordinary();
  m.far_line = 4e-3;  // a scheduler's time slice
  EXPECT_NE(implausible(m), "");
  m = ordinary();
  m.write[1] = 10e-3;
  EXPECT_NE(implausible(m).find("copies of 65536 bytes"), std::string::npos) << implausible(m);
  m = ordinary();
  m.read[0][3] = m.read[0][2] / 2;
  EXPECT_NE(implausible(m).find("faster than fewer"), std::string::npos) << implausible(m);
  m = ordinary();
  m.thread_switch = std::nan("");
  EXPECT_NE(implausible(m), "");
}

TEST(Calibration, LinksThatCannotBeRightAreTold) {
  const MeasuredLink ordinary{3e-7, 1e-10};
  EXPECT_EQ(implausible(ordinary), "");
  EXPECT_EQ(implausible(MeasuredLink{20e-3, 1e-10}), "an empty message in 2e+04 us");
  EXPECT_EQ(implausible(MeasuredLink{3e-7, 1e-13}), "messages at 1e+04 GB/s");
  EXPECT_NE(implausible(MeasuredLink{3e-7, 0}), "") << "a long message as fast as a short one";
  EXPECT_NE(implausible(MeasuredLink{3e-7, -1e-10}), "");
  EXPECT_NE(implausible(MeasuredLink{std::nan(""), 1e-10}), "");
  EXPECT_TRUE(is_plausible_fold(1e-11));
  for (const double gamma : {0.0, -1e-11, 1e-13, 1e-7}) EXPECT_FALSE(is_plausible_fold(gamma)) << gamma;
}

TEST(Calibration, LinksOfABusyMachineAreTold) {
  EXPECT_EQ(disturbed({3e-7, 1e-10}, 1), "");
  EXPECT_EQ(disturbed({2e-3, 1e-10}, 1), "an empty message took 2e+03 us");
  EXPECT_EQ(implausible(MeasuredLink{2e-3, 1e-10}), "") << "it may be so";
  EXPECT_NE(disturbed({3e-7, 1e-8}, 1), "");
  EXPECT_NE(disturbed({120e-6, 1e-10}, 2), "");
  EXPECT_EQ(disturbed({120e-6, 1e-10}, 4), "") << "four ranks on a core wait for each other";
}

TEST(Calibration, OneCoreIsNotMeasured) { EXPECT_FALSE(calibrate({0})); }

// As one that the kernel has taken away since: its thread runs wherever it may, perhaps on the other thread's core.
TEST(Calibration, EndsWhereACoreIsGone) {
  constexpr int kGone = 4000;
  const auto start = std::chrono::steady_clock::now();
  calibrate({allowed_cores().front(), kGone});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
      << "at most some 45 ms of an idle machine";
}

TEST(Calibration, IsBriefWhateverTheMachineDoes) {
  const auto start = std::chrono::steady_clock::now();
  calibrate(allowed_cores());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << "some 30 ms where it is idle";
}

/// Each thread reads memory of the other one, which may find the time over first.
TEST(Calibration, EndsAtAnyMoment) {
  const Cores cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "one core is not measured";
  for (int turn = 0; turn < 200; ++turn) {
    calibrate({cores[0], cores[1]}, std::chrono::microseconds(turn * 100));
  }
}

}  // namespace
}  // namespace tutti::select
