// Plans as hostile input: for any tables, the verifier answers with a verdict.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "plan/verify.hpp"
#include "plan/verify/structure.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace tutti::plan {
namespace {

/// Two ranks with every kind of step, fractions, two lanes and an `after`.
std::vector<RankPlan> sound() {
  return test::written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    const std::vector<Fraction> bounds{{0, 1}, {1, 3}, {3, 3}};
    const View in = plan.input(plan.partition(bounds)), out = plan.output(1), other = plan.scratch(1, 1);
    auto lane = plan.lane(), later = plan.lane();
    lane.send(in.all(), 1 - me);
    lane.recv(other.all(), 1 - me);
    const StepRef done = lane.complete(out[0], {in[0], other[0]});
    later.after(done).complete(out[1], {in[1], other[1]});
    later.copy(other[0], out[0]);
  });
}

struct Hostile {
  const char* words;  // in the verdict
  std::function<void(RankPlan&)> change;
};

const std::vector<Hostile>& hostile_changes() {
  static const std::vector<Hostile> all = {
      {"plan 0 is that of rank 5", [](RankPlan& p) { p.rank = 5; }},
      {"plan of all_reduce for 3 ranks", [](RankPlan& p) { p.shape.ranks = 3; }},
      {"cannot be proven", [](RankPlan& p) { p.shape.collective = static_cast<Collective>(77); }},
      {"cannot be proven", [](RankPlan& p) { p.shape.collective = Collective::SendRecv; }},
      {"grain is 0", [](RankPlan& p) { p.grain = 0; }},
      {"rank 1: grain 3, where rank 0 has 7", [](RankPlan& p) { p.grain = 7; }},
      {"smaller than 1/2", [](RankPlan& p) { p.grain = 2; }},
      {"rank 1: 2 lanes, where rank 0 has 3",
       [](RankPlan& p) {
         p.lanes.push_back({{5, 5}});
       }},
      {"lane 1 has steps", [](RankPlan& p) { p.lanes[1].steps.begin = 0; }},
      {"lane 1 has steps", [](RankPlan& p) { p.lanes[1].steps.end = 1000000; }},
      {"in no lane", [](RankPlan& p) { p.steps.push_back(p.steps[0]); }},
      {"no known kind", [](RankPlan& p) { p.steps[0].kind = static_cast<StepKind>(9); }},
      {"no known lend", [](RankPlan& p) { p.steps[0].lend = static_cast<Lend>(9); }},
      {"no known fold shape", [](RankPlan& p) { p.steps[2].shape = static_cast<FoldShape>(9); }},
      {"names pieces outside",
       [](RankPlan& p) {
         p.steps[0].pieces = {0, kNone};
       }},
      {"names pieces outside",
       [](RankPlan& p) {
         p.steps[0].pieces = {2, 1};
       }},
      {"names peers outside",
       [](RankPlan& p) {
         p.steps[0].peers = {0, kNone};
       }},
      {"names operands outside",
       [](RankPlan& p) {
         p.steps[2].operands = {0, kNone};
       }},
      {"step 0: names rank 2 as a peer, of 2 ranks", [](RankPlan& p) { p.peers[0] = 2; }},
      {"names rank -7 as a peer", [](RankPlan& p) { p.peers[0] = -7; }},
      {"names its own rank", [](RankPlan& p) { p.peers[0] = 0; }},
      {"names rank 1 twice",
       [](RankPlan& p) {
         p.steps[0].peers = {0, 2};
       }},
      {"step 2: names rank 1 twice",
       [](RankPlan& p) {
         p.operands.assign(2, {1, {}});
         p.steps[2].operands = {0, 2};
       }},
      {"names rank 4 as a peer",
       [](RankPlan& p) {
         p.operands[0] = {4, {}};
       }},
      {"both local and from rank 1", [](RankPlan& p) { p.operands[0].peer = 1; }},
      {"operand with pieces outside",
       [](RankPlan& p) {
         p.operands[0].pieces = {0, 99};
       }},
      {"a fold has operands",
       [](RankPlan& p) {
         p.steps[2].operands = {0, 0};
       }},
      {"a copy has one source", [](RankPlan& p) { p.steps[4].operands.end = p.steps[4].operands.begin; }},
      {"a copy's source is local",
       [](RankPlan& p) {
         p.operands[4] = {1, {}};
       }},
      {"a send has peers",
       [](RankPlan& p) {
         p.steps[0].peers = {0, 0};
       }},
      {"a receive has one peer",
       [](RankPlan& p) {
         p.steps[1].peers = {0, 2};
       }},
      {"claims to lend, but sends nothing", [](RankPlan& p) { p.steps[1].lend = Lend::Always; }},
      {"claims to complete a fold, but is none", [](RankPlan& p) { p.steps[1].completes = true; }},
      {"a buffer that does not exist", [](RankPlan& p) { p.pieces[0].buffer = static_cast<Buffer>(3); }},
      {"names block 1 of its input, which has 1", [](RankPlan& p) { p.pieces[0].block = 1; }},
      {"names block 9 of its scratch, which has 1", [](RankPlan& p) { p.pieces[1].block = 9; }},
      {"partition 8, which does not exist", [](RankPlan& p) { p.pieces[0].partition = 8; }},
      {"chunks [0, 3) of a partition of 2", [](RankPlan& p) { p.pieces[0].last = 3; }},
      {"chunks [2, 2) of a partition of 2", [](RankPlan& p) { p.pieces[0].first = 2; }},
      {"writes to the input", [](RankPlan& p) { p.pieces[1].buffer = Buffer::Input; }},
      {"waits for a step that does not exist", [](RankPlan& p) { p.steps[3].after = 99; }},
      {"waits for a step of its own lane", [](RankPlan& p) { p.steps[3].after = 4; }},
      {"has 0 parts", [](RankPlan& p) { p.partitions[0].parts = 0; }},
      {"has 4294967295 parts", [](RankPlan& p) { p.partitions[0].parts = kNone; }},
      {"equal chunks, more than the plan's grain", [](RankPlan& p) { p.partitions[0].parts = 4; }},
      {"fractions outside", [](RankPlan& p) { p.partitions[1].bounds = 1; }},
      {"fractions outside", [](RankPlan& p) { p.partitions[1].bounds = kNone - 1; }},
      {"1/0, which is not from 0 to 1",
       [](RankPlan& p) {
         p.fractions[1] = {1, 0};
       }},
      {"4/3, which is not from 0 to 1",
       [](RankPlan& p) {
         p.fractions[1] = {4, 3};
       }},
      {"does not go from 0 to 1",
       [](RankPlan& p) {
         p.fractions[2] = {2, 3};
       }},
      {"does not go from 0 to 1",
       [](RankPlan& p) {
         p.fractions[0] = {1, 4};
       }},
      {"is not in order at 2",
       [](RankPlan& p) {
         p.partitions[1].parts = 3;
         p.fractions = {{0, 1}, {2, 3}, {1, 3}, {1, 1}};
       }},
      {"too large to prove", [](RankPlan& p) { p.scratch_blocks = kNone; }},
  };
  return all;
}

TEST(Structure, OfTheUnchangedPlanIsSound) {
  const Verdict verdict = verify(sound());
  EXPECT_TRUE(verdict) << verdict.reason;
}

TEST(Structure, IsCheckedBeforeAnythingIsUsed) {
  for (const Hostile& hostile : hostile_changes()) {
    auto plans = sound();
    hostile.change(plans[0]);
    const Verdict verdict = verify(plans);
    EXPECT_FALSE(verdict) << hostile.words;
    EXPECT_NE(verdict.reason.find(hostile.words), std::string::npos) << hostile.words << ": " << verdict.reason;
  }
}

TEST(Structure, NeedsAtLeastOneRank) { EXPECT_FALSE(verify({})); }

TEST(Structure, OfAFoldInACollectiveThatDoesNotReduceIsRejected) {
  auto plans = test::written(Collective::Broadcast, 1, [](Rank, PlanBuilder& plan) {
    plan.lane().reduce(plan.output().all(), {plan.input().all()});
  });
  EXPECT_NE(verify(plans).reason.find("a fold in broadcast"), std::string::npos);
}

TEST(Structure, EndsForPlansThatRepeatTheSameRanges) {
  auto plans = test::written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    auto lane = plan.lane();
    for (int i = 0; i < 20000; ++i) lane.copy(plan.output().all(), plan.input().all());
  });
  for (Operand& operand : plans[0].operands) operand.pieces = {0, static_cast<uint32_t>(plans[0].pieces.size())};
  EXPECT_NE(verify(plans).reason.find("too large to prove"), std::string::npos);
}

TEST(Structure, AllowsARankAsManyLanesAsAreProvenAtOnce) {
  const auto with_lanes = [](int lanes) {  // all of which wait for each other between rounds, for their scratch
    return test::written(Collective::AllReduce, 1, [lanes](Rank, PlanBuilder& plan) {
      const View scratch = plan.scratch(lanes);
      plan.lane().copy(plan.output().all(), plan.input().all());
      for (int i = 1; i < lanes; ++i) plan.lane().copy(scratch.block(i), plan.input().all());
    });
  };
  EXPECT_TRUE(verify(with_lanes(64)));
  EXPECT_EQ(verify(with_lanes(65)).reason, "rank 0 has 65 lanes; a rank has at most 64");
  EXPECT_FALSE(verify(with_lanes(16000)));
}

TEST(Structure, LeavesRoomForFourTimesTheLanesOfAnyAlgorithm) {
  size_t most = 0;
  for (int c = 0; c < kCollectives; ++c) {
    for (const Algorithm* algorithm : algorithms_of(static_cast<Collective>(c))) {
      for (const Rank n : {1, 2, 3, 4, 5, 8, 13, 64, 100, 999, 1000}) {
        const Shape shape{algorithm->collective, n};
        if (algorithm->allows(shape)) most = std::max(most, generate(*algorithm, shape, 0).lanes.size());
      }
    }
  }
  EXPECT_GT(most, 1u);
  EXPECT_LE(4 * most, verifier::kMaxLanes);
}

TEST(Structure, OfManyFinePartitionsIsRejectedBeforeTheirCutsAreAllocated) {
  auto plans = test::written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    plan.lane().copy(plan.output().all(), plan.input().all());
  });
  plans[0].grain = 1 << 20;
  for (uint32_t i = 0; i < 100; ++i) plans[0].partitions.push_back({(1u << 20) - i, kNone});
  EXPECT_NE(verify(plans).reason.find("over 2097152 chunks in the partitions"), std::string::npos);
}

/// Replaces a word of a table by a value that is likely to do harm.
uint32_t nasty(uint32_t old, std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return kNone;
    case 2:
      return old + 1;
    case 3:
      return old - 1;
    case 4:
      return static_cast<uint32_t>(random() % 16);
    default:
      return static_cast<uint32_t>(random() >> (random() % 64));
  }
}

template <class T>
void damage(std::vector<T>& table, std::mt19937_64& random) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  if (table.empty()) return;
  // Only 32-bit fields: an enumeration or bool out of range is tested above.
  T& entry = table[random() % table.size()];
  constexpr size_t kFirst = std::is_same_v<T, Step> || std::is_same_v<T, Piece> ? 1 : 0;
  const size_t at = kFirst + random() % (sizeof(T) / sizeof(uint32_t) - kFirst);
  auto* words = reinterpret_cast<unsigned char*>(&entry) + at * sizeof(uint32_t);
  uint32_t word = 0;
  std::copy_n(words, sizeof(word), reinterpret_cast<unsigned char*>(&word));
  word = nasty(word, random);
  std::copy_n(reinterpret_cast<unsigned char*>(&word), sizeof(word), words);
}

TEST(Structure, DamagedAtRandomNeverCrashesTheVerifier) {
  std::mt19937_64 random(11);
  const auto catalogue = test::catalogue();
  int rejected = 0;
  for (int i = 0; i < 4000; ++i) {
    const Algorithm& algorithm = *catalogue[random() % catalogue.size()];
    const auto n = static_cast<Rank>(2 + random() % 5);
    const auto shapes = test::shapes_of(algorithm, n);
    auto plans = !shapes.empty() && i % 2 == 0 ? generate_all(algorithm, shapes.back()) : sound();
    for (uint64_t times = 1 + random() % 3; times > 0; --times) {
      RankPlan& plan = plans[random() % plans.size()];
      switch (random() % 8) {
        case 0:
        case 1:
          damage(plan.steps, random);
          break;
        case 2:
          damage(plan.pieces, random);
          break;
        case 3:
          damage(plan.operands, random);
          break;
        case 4:
          damage(plan.partitions, random);
          break;
        case 5:
          damage(plan.fractions, random);
          break;
        case 6:
          damage(plan.lanes, random);
          break;
        default:
          damage(plan.peers, random);
      }
    }
    rejected += verify(plans).ok ? 0 : 1;
  }
  EXPECT_GT(rejected, 2000);
}

}  // namespace
}  // namespace tutti::plan
