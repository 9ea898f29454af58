// Which process a rank names to Yama.
#include "transports/shm/tracer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace tutti::transports {
namespace {

constexpr bool kMachine = true, kContainer = false;

/// 1 ─ 10 shell ─ 20 launcher ─ 30, 31, 32 (a wrapper ─ 40); 1 ─ 11 another shell ─ 21.
int parent_of(int process) {
  static const std::map<int, int> parents{{10, 1},  {11, 1},  {20, 10}, {30, 20}, {31, 20},
                                          {32, 20}, {40, 32}, {21, 11}, {1, 0}};
  const auto found = parents.find(process);
  return found == parents.end() ? 0 : found->second;
}

int tracer(int self, const std::vector<int>& others, bool whole_machine = kMachine) {
  return tracer_for(self, others, parent_of, whole_machine);
}

TEST(Tracer, IsTheCommonLauncher) {
  EXPECT_EQ(tracer(30, {31, 40}), 20);
  EXPECT_EQ(tracer(40, {30, 31}), 20);
  EXPECT_EQ(tracer(30, {20}), 20);
}

TEST(Tracer, IsTheProcessItselfWhereItStartedTheOthers) { EXPECT_EQ(tracer(20, {30, 40}), 20); }

TEST(Tracer, IsNeverTheFirstProcessOfTheMachine) {
  EXPECT_EQ(tracer(30, {21, 31}), 0);
  EXPECT_EQ(tracer(30, {21, 31}, kContainer), 1);
}

TEST(Tracer, IsASingleOtherProcessWithoutACommonAncestor) {
  EXPECT_EQ(tracer(30, {21}), 21);
  EXPECT_EQ(tracer(30, {99}), 99) << "its parent is unknown";
  EXPECT_EQ(tracer(99, {30, 31}), 0);
}

TEST(Tracer, IncludesThoseNamedBefore) {
  EXPECT_EQ(tracer(40, {32}), 32);
  EXPECT_EQ(tracer(40, {30, 32}), 20) << "32 was named for an earlier communicator";
}

TEST(Tracer, IsFoundDespiteACycleOfParents) {
  const auto circle = [](int process) { return process == 5 ? 6 : 5; };
  const int others[] = {7};
  EXPECT_EQ(tracer_for(5, others, circle, kMachine), 5);
}

}  // namespace
}  // namespace tutti::transports
