// All ranks always choose the same: algorithm, window and rounds of a call depend only on what ranks have agreed on,
// whatever each rank has measured and wherever its buffers lie.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "select/calibration.hpp"
#include "support/planner_of.hpp"
#include "topo/constants.hpp"

namespace tutti::comm {
namespace {

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  uint64_t below(uint64_t most) { return engine_() % most; }
  /// Evenly spread over orders of magnitude.
  double between(double low, double high) {
    return low * std::pow(high / low, static_cast<double>(engine_()) / static_cast<double>(std::mt19937::max()));
  }

 private:
  std::mt19937 engine_;
};

select::Calibration calibration(Dice& dice) {
  select::Calibration m{.near_line = dice.between(5e-9, 1e-6), .thread_switch = dice.between(1e-7, 1e-5)};
  m.far_line = m.near_line * 2;
  for (size_t i = 0; i < m.write.size(); ++i) {
    const auto bytes = static_cast<double>(select::Calibration::kSizes[i]);
    for (auto* times :
         {&m.write, &m.both, &m.read[0], &m.read[1], &m.read[2], &m.kernel, &m.fold, &m.stored, &m.streamed}) {
      (*times)[i] = bytes / dice.between(1e9, 200e9);
    }
  }
  for (double& seconds : m.tiled) seconds = dice.between(1e-5, 1e-3);
  m.caches = {dice.below(4) << 19, dice.below(5) << 23, 1 + dice.below(8)};
  m.beyond_stored = dice.between(1e-11, 1e-9);
  m.beyond_streamed = dice.between(1e-11, 1e-9);
  return m;
}

select::CostInputs inputs(Dice& dice, Rank ranks) {
  const std::vector<std::string> hosts(static_cast<size_t>(ranks), "here");
  select::CostInputs made{.ranks = ranks, .groups = groups_of(hosts, "")};
  made.inside = {dice.between(1e-8, 1e-4), dice.between(1e-12, 1e-9), dice.between(1e-9, 1e-5), dice.below(2) == 0};
  made.gamma = dice.between(1e-12, 1e-10);
  made.oversubscription = dice.below(2) == 0 ? 1 : 2;
  made.staging = uint64_t{1} << (16 + dice.below(8));
  made.message = uint64_t{1} << (12 + dice.below(8));
  made.reproducible = dice.below(4) == 0;
  return made;
}

select::HandOver hand_over(Dice& dice, const select::CostInputs& inputs) {
  const auto shift = [&] { return static_cast<int>(dice.below(5)) - 2; };
  return {.reading = static_cast<transports::ReadAccess>(dice.below(3)),
          .shares_cores = inputs.oversubscription > 1,
          .always_cma = dice.below(4) == 0,
          .shifts = {.cma = shift(),
                     .no_cma = dice.below(4) == 0,
                     .no_cma_folds = dice.below(4) == 0,
                     .wait = shift(),
                     .caches = shift()}};
}

/// The constants in use are this rank's own, while it lives.
class OwnFigures {
 public:
  explicit OwnFigures(Dice& dice) { select::apply(calibration(dice), internal::constants_in_use); }
  ~OwnFigures() { internal::constants_in_use = MachineConstants{}; }
  OwnFigures(const OwnFigures&) = delete;
  OwnFigures& operator=(const OwnFigures&) = delete;
};

/// What ranks must have in common.
struct Chosen {
  std::string algorithm;
  uint64_t salt = 0, rounds = 0, window = 0;
  bool operator==(const Chosen&) const = default;
};

Chosen chosen(PlannerOf& rank, const CallSpec& spec, Dice& dice) {
  unsigned char* const memory = rank.memory.data();
  const bool in_place = dice.below(2) == 0;
  const Call call{.spec = spec, .in = memory, .out = in_place ? memory : memory + 1 + dice.below(100)};
  const Prepared& made = *rank.planner.collective(call).program;
  const exec::Program& program = made.execution->program();
  return {made.algorithm, made.salt, program.rounds, program.window_bytes};
}

TEST(SameChoice, WhateverEachRankHasMeasuredAndWhereverItsBuffersLie) {
  constexpr int kMachines = 60, kCalls = 12;
  for (uint32_t seed = 0; seed < kMachines; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const Rank ranks = 2 + static_cast<Rank>(dice.below(7));
    select::CostInputs common = inputs(dice, ranks);
    common.hand_over = hand_over(dice, common);
    common.max_width = 1 + static_cast<uint32_t>(dice.below(3));
    const std::string text = [&] {
      const OwnFigures of_rank_0(dice);
      return select::DecisionTable(common).text();
    }();
    for (int i = 0; i < kCalls; ++i) {
      constexpr Collective kMade[] = {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                      Collective::AllToAll,  Collective::Broadcast, Collective::Reduce,
                                      Collective::Gather,    Collective::Scatter};
      CallSpec spec{.collective = kMade[dice.below(std::size(kMade))], .type = DType::F32};
      spec.count = static_cast<uint64_t>(dice.between(1, 4e6));
      std::vector<Chosen> all;
      for (const Rank rank : {Rank{0}, ranks - 1}) {
        const OwnFigures own(dice);
        select::CostInputs mine = common;  // what a rank reads the table by: its own costs differ
        mine.inside.alpha = dice.between(1e-8, 1e-4);
        PlannerOf one(ranks, rank, select::DecisionTable::parse(text, mine));
        all.push_back(chosen(one, spec, dice));
      }
      EXPECT_EQ(all[0], all[1]) << name_of(spec.collective) << " of " << spec.count << " elements: " << all[0].algorithm
                                << " and " << all[1].algorithm << ", " << all[0].rounds << " and " << all[1].rounds
                                << " rounds";
    }
  }
}

}  // namespace
}  // namespace tutti::comm
