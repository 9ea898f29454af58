#include "select/calibration.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace tutti::select {
namespace {

/// Of an ordinary machine: copies of 10 GB/s, by the kernel of 8 GB/s and 1 µs.
Calibration ordinary() {
  Calibration m{.near_line = 50e-9, .far_line = 100e-9, .thread_switch = 1e-6};
  for (size_t i = 0; i < Calibration::kSizes.size(); ++i) {
    const auto bytes = static_cast<double>(Calibration::kSizes[i]);
    m.write[i] = m.read[i] = m.stored[i] = m.streamed[i] = bytes / 10e9;
    m.kernel[i] = 1e-6 + bytes / 8e9;
  }
  return m;
}

TEST(Calibration, IsReadAsItWasWritten) {
  const auto read = parse_calibration(to_text(ordinary()));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(ordinary()));
  EXPECT_FALSE(parse_calibration(""));
  EXPECT_FALSE(parse_calibration("{}"));
  EXPECT_FALSE(parse_calibration("{\"format\":\"tutti-calibration 1\",\"near_line\":[]}"));
}

TEST(Calibration, ReplacesTheFiguresOfLocalLinks) {
  MachineConstants constants;
  apply(ordinary(), constants);
  EXPECT_NEAR(constants.shm_alpha, 140e-9, 1e-12);
  EXPECT_NEAR(constants.shm_beta, 1e-10, 1e-13);
  EXPECT_NEAR(constants.context_switch, 1e-6, 1e-12);
  EXPECT_EQ(constants.cma_transfer_from, MachineConstants{}.cma_transfer_from)
      << "equal on all ranks: agreed on instead";
}

TEST(Calibration, TheKernelsCopyIsUsedFromWhereItIsFaster) {
  Calibration m = ordinary();
  EXPECT_EQ(cma_shift(m), -1) << "from some 20 KB on";
  for (double& seconds : m.kernel) seconds *= 3;
  EXPECT_EQ(cma_shift(m), 2) << "never";
  m = ordinary();
  for (double& seconds : m.kernel) seconds += 3e-6;
  EXPECT_EQ(cma_shift(m), 0) << "from some 55 KB on";
  for (double& seconds : m.kernel) seconds -= 3.9e-6;
  EXPECT_EQ(cma_shift(m), -2) << "always, but no further than that";
  m.kernel = {};
  EXPECT_EQ(cma_shift(m), 0) << "not permitted";
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
  m.read[3] = m.read[2] / 2;
  EXPECT_NE(implausible(m).find("faster than fewer"), std::string::npos) << implausible(m);
  m = ordinary();
  m.thread_switch = std::nan("");
  EXPECT_NE(implausible(m), "");
}

TEST(Calibration, OneCoreIsNotMeasured) { EXPECT_FALSE(calibrate({0})); }

TEST(Calibration, IsBriefWhateverTheMachineDoes) {
  const auto start = std::chrono::steady_clock::now();
  calibrate(allowed_cores());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << "some 50 ms where it is idle";
}

}  // namespace
}  // namespace tutti::select
