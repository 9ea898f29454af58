// Which process a rank names to Yama.
#include "transports/shm/tracer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

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

/// A process of a launcher whose other ranks' processes are 30 and 31; 50 is a process of another session.
struct UnderYama {
  static constexpr int kLauncher = 20, kRank = 30, kOtherRank = 31, kSession = 10, kForeign = 50;

  void permit(const std::vector<int>& others, const Confirm& confirm) { permit_cma(others, confirm, yama); }

  std::vector<int> named;
  Yama yama{.restricts = [] { return true; },
            .parent_of =
                [](int process) {
                  if (process == kLauncher || process == kForeign) return kSession;
                  return process == getpid() || process == kRank || process == kOtherRank ? kLauncher : 0;
                },
            .name =
                [this](int process) {
                  named.push_back(process);
                  return true;
                },
            .whole_machine = kMachine};
};

TEST(Tracer, NobodyIsNamedForAProcessThatIsNotConfirmed) {
  UnderYama under;
  under.permit({UnderYama::kRank, UnderYama::kForeign}, [](int process) { return process != UnderYama::kForeign; });
  EXPECT_EQ(under.named, std::vector{UnderYama::kLauncher}) << "a liar widened the permission to the session";
}

TEST(Tracer, AProcessIsConfirmedBeforeItIsNamed) {
  UnderYama under;
  under.permit({UnderYama::kRank, UnderYama::kOtherRank}, [&](int) {
    EXPECT_TRUE(under.named.empty());
    return true;
  });
  EXPECT_EQ(under.named, std::vector{UnderYama::kLauncher});
}

TEST(Tracer, NobodyIsNamedWhenNoneIsConfirmed) {
  UnderYama under;
  under.permit({UnderYama::kForeign}, [](int) { return false; });
  EXPECT_TRUE(under.named.empty());
}

TEST(Tracer, WhereYamaDoesNotRestrictNobodyIsAsked) {
  UnderYama under;
  under.yama.restricts = [] { return false; };
  under.permit({UnderYama::kRank}, [](int) {
    ADD_FAILURE();
    return true;
  });
  EXPECT_TRUE(under.named.empty());
}

}  // namespace
}  // namespace tutti::transports
