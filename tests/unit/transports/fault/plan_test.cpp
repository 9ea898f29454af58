#include "transports/fault/plan.hpp"

#include <gtest/gtest.h>

#include "tutti/error.hpp"

namespace tutti::transports {
namespace {

TEST(FaultPlan, ReadsEveryPart) {
  const FaultPlan plan = parse_fault_plan(
      "delay=1.5ms,rate=2.5GB/"
      "s,latency=50us,jitter=2s,stall=5,kill=7,corrupt=tag@3,rank=1,peer=0,seed=18446744073709551615");
  EXPECT_DOUBLE_EQ(plan.delay, 1.5e-3);
  EXPECT_DOUBLE_EQ(plan.rate, 2.5e9);
  EXPECT_DOUBLE_EQ(plan.latency, 50e-6);
  EXPECT_DOUBLE_EQ(plan.jitter, 2);
  EXPECT_EQ(plan.stall, 5u);
  EXPECT_EQ(plan.kill, 7u);
  EXPECT_EQ(plan.corrupt, 3u);
  EXPECT_EQ(plan.what, FaultPlan::Corrupt::Tag);
  EXPECT_EQ(plan.rank, 1);
  EXPECT_EQ(plan.peer, 0);
  EXPECT_EQ(plan.seed, ~uint64_t{0});
}

TEST(FaultPlan, OfEmptyTextHasNoFaults) {
  const FaultPlan plan = parse_fault_plan("");
  EXPECT_EQ(plan.delay + plan.latency + plan.jitter, 0);
  EXPECT_EQ(plan.stall, FaultPlan::kNever);
  EXPECT_EQ(plan.kill, FaultPlan::kNever);
  EXPECT_EQ(plan.corrupt, FaultPlan::kNever);
}

TEST(FaultPlan, NamesThePartThatCannotBeUsed) {
  for (
      const char* part :
      {"delay",           "delay=",        "delay=1",      "delay=ms",   "delay=-1ms", "delay=1h", "delay=2000000000ms",
       "delay=1..2s",     "rate=2",        "rate=0MB/s",   "rate=1Gb/s", "stall=-1",   "stall=x",  "kill=1x",
       "corrupt=payload", "corrupt=all@1", "corrupt=tag@", "rank=-1",    "rank=",      "sneeze=1", "=",
       " delay=1ms"}) {
    try {
      parse_fault_plan(std::string("seed=1,") + part + ",latency=1ms");
      ADD_FAILURE() << part << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find('"' + std::string(part) + '"'), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tutti::transports
